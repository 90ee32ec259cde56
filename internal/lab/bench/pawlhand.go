package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// pawlPart is a process of Pawl: a server evaluates, and workers and submitters are passive, as
// those of `pawl server`, `pawl worker` and `pawl submit` are.
type pawlPart struct {
	Task
	hand   *Hand
	store  store.Store
	engine *engine.Engine
	worker *worker.Worker
	server *httpServer    // nil: it serves no clients
	client *client.Client // nil: it submits to the database
	defs   []*workflow.Definition
	output json.RawMessage // of each job
}

// OpenPawl opens the part that a task names on its database.
func OpenPawl(ctx context.Context, t Task, h *Hand) (Part, error) {
	at, err := address.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	s, err := at.Open(ctx, 0, log)
	if err != nil {
		return nil, err
	}
	p := &pawlPart{Task: t, hand: h, store: s, output: json.RawMessage(`{}`)}
	if t.Payload > 0 {
		p.output = json.RawMessage(`"` + Body(t.Payload) + `"`)
	}
	if p.engine, err = engine.Open(engine.Config{Store: s, Lanes: at.Lanes(), Passive: t.Role != Server && !t.Active, Log: log}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if t.HTTP && t.Role == Server {
		p.server, err = serve(p.engine)
	}
	if err == nil && t.Server != "" {
		p.client, err = client.Open(ctx, t.Server, client.Config{Actor: "bench"})
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	for i := range max(t.Kinds, 1) {
		def, err := workflow.Parse("kind", fmt.Appendf(nil, "name: kind_%d\ninputs: {due: {type: integer, default: 0}, body: {type: string, default: \"\"}}\nsteps:\n  - {id: step1, handler: noop}\n", i))
		if err != nil {
			return nil, err
		}
		p.defs = append(p.defs, def)
	}
	return p, nil
}

// Go implements Part.
func (p *pawlPart) Go(ctx context.Context) (err error) {
	switch p.Role {
	case Worker:
		p.worker, err = worker.Start(context.WithoutCancel(ctx), p.engine, worker.Config{Capacity: p.Capacity, Handlers: map[string]worker.Handler{"noop": p.handle}})
		return err
	case Submitter:
		return Pace(ctx, p.Task, p.submit(ctx))
	}
	return nil
}

func (p *pawlPart) handle(_ context.Context, t *worker.Task) worker.Result {
	var input struct {
		Inputs struct {
			Due int64 `json:"due"`
		} `json:"inputs"`
	}
	if p.Rate > 0 {
		_ = json.Unmarshal(t.Input(), &input) // written below
	}
	p.hand.Began(input.Inputs.Due)
	return worker.Result{Output: p.output}
}

// givenInputs are the inputs of a job.
type givenInputs struct {
	Due  int64  `json:"due"`
	Body string `json:"body"`
}

func (p *pawlPart) submit(ctx context.Context) func([]int64) error {
	body, n := Body(p.Payload), 0
	return func(due []int64) error {
		if p.client != nil {
			return p.send(ctx, len(due))
		}
		subs := make([]pawl.Submission, len(due))
		for i, at := range due {
			subs[i] = pawl.Submission{Definition: p.defs[n%len(p.defs)].Canonical(), Actor: "bench"}
			if at != 0 || body != "" {
				subs[i].Inputs, _ = json.Marshal(givenInputs{at, body}) // of a number and a text
			}
			n++
		}
		answers, err := p.engine.Submit(ctx, subs...)
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		return err
	}
}

// send submits n jobs to a server.
func (p *pawlPart) send(ctx context.Context, n int) error {
	subs := make([]client.Submission, n)
	for i := range subs {
		subs[i].Workflow = p.defs[i%len(p.defs)]
	}
	done, err := p.client.Jobs.SubmitAll(ctx, subs...)
	for _, d := range done {
		err = errors.Join(err, d.Err)
	}
	return err
}

// ServerURL implements Served.
func (p *pawlPart) ServerURL() string {
	if p.server == nil {
		return ""
	}
	return p.server.url
}

// Close implements Part.
func (p *pawlPart) Close() error {
	if p.client != nil {
		_ = p.client.Close() // only connections
	}
	if p.server != nil {
		p.server.close()
	}
	if p.worker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		p.worker.Drain(ctx)
		cancel()
	}
	p.engine.Close()
	return p.store.Close()
}

// Body returns a text of n bytes that compresses as prose does: to about a third.
func Body(n int) string {
	var b strings.Builder
	for i := uint64(1); b.Len() < n; i++ {
		fmt.Fprintf(&b, "the %d jobs of %d queues; ", i*2654435761%100_000, i)
	}
	return b.String()[:n]
}

// PawlStill returns the function that reports whether a database has no work left, and the one
// that closes it.
func PawlStill(ctx context.Context, url string) (still func(context.Context) (bool, error), closed func() error, err error) {
	at, err := address.Parse(url)
	if err != nil {
		return nil, nil, err
	}
	s, err := at.Open(ctx, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	if at.Postgres == "" {
		p := &Pawl{config: PawlConfig{Store: s}}
		return p.still, s.Close, nil
	}
	// The store asks for what is in flight, and reads the jobs of the last seconds for it: 28 ms after a
	// drain of 20,000. This is the question that River is asked.
	if err := s.Close(); err != nil { // it has made the schema
		return nil, nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	still = func(ctx context.Context) (still bool, err error) {
		err = conn.QueryRow(ctx, "select not exists (select from job where state in ('SUBMITTED', 'PENDING', 'RUNNING'))").Scan(&still)
		return still, err
	}
	return still, func() error { return conn.Close(context.WithoutCancel(ctx)) }, nil
}
