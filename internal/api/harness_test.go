package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/lab/sqlitetest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
	"github.com/pawl-dev/pawl/worker"
)

func TestMain(m *testing.M) {
	if serveAudience() {
		return
	}
	os.Exit(pgtest.Main(m))
}

// A site is the API on an engine with a SQLite file, and a worker on it.
type site struct {
	crews  []*crew.Crew // one at most
	t      testing.TB
	where  string // the address of the database
	engine *engine.Engine
	url    string
	close  func()
	seen   chan string // what was told of each request, as far as it has room

	examine  func() []health.Finding // what the doctor finds
	now      func() time.Time        // see api.Config; nil: time.Now
	bodyTime time.Duration           // see api.Config
	maxWaits int                     // likewise
	required bool                    // tokens are required
	poll     time.Duration           // see engine.Config; 0: 20 ms
	deliver  bool                    // likewise

	maxEvents int       // likewise
	sockets   string    // likewise
	loads     *loadSite // nil: none
}

// newSite opens a site with a new SQLite file.
func newSite(t testing.TB) *site {
	t.Helper()
	return newSiteOn(t, sqlitetest.Copy(t))
}

// newSiteOn opens a site on a database.
func newSiteOn(t testing.TB, where string, crews ...*crew.Crew) *site {
	t.Helper()
	s := &site{t: t, where: where, crews: crews, seen: make(chan string, 100), sockets: openShop(t),
		examine: func() []health.Finding { return []health.Finding{{Check: "clock", Severity: health.OK}} }}
	s.open()
	t.Cleanup(func() { s.close() })
	return s
}

// newWholeSite opens a site on a database that has a crew and load runs, too.
func newWholeSite(t testing.TB, where string) *site {
	t.Helper()
	s := newSiteOn(t, where, openCrew(t))
	s.close()
	s.loads = openLoads(t)
	s.open()
	return s
}

// open opens the database, and serves it.
func (s *site) open() {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	at, err := address.Parse(s.where)
	if err != nil {
		s.t.Fatal(err)
	}
	db, err := at.Open(s.t.Context(), time.Hour, log)
	if err != nil {
		s.t.Fatal(err)
	}
	s.engine, err = engine.Open(engine.Config{Store: db, Lanes: at.Lanes(), Poll: cmp.Or(s.poll, 20*time.Millisecond), Deliver: s.deliver, Silence: time.Hour, Log: log})
	if err != nil {
		s.t.Fatal(err)
	}
	gate := access.New(access.Config{Required: s.required, Sessions: s.engine, Find: func(ctx context.Context, id pawl.ID) (*pawl.Token, error) { return store.FindToken(ctx, db, id) }})
	var members *crew.Crew
	if len(s.crews) > 0 {
		members = s.crews[0]
	}
	config := api.Config{Crew: members, Sockets: s.sockets, Gate: gate, Cookie: api.CookiePrefix, Engine: s.engine, Program: "test", Schema: 1, Now: s.time, Observe: s.observe, Log: log, BodyTime: s.bodyTime, MaxWaits: s.maxWaits,
		Events: s.engine.Feed(), MaxEventStreams: s.maxEvents, Examine: func(context.Context) []health.Finding { return s.examine() }}
	s.loads.config(&config)
	service := api.New(config)
	server := httptest.NewUnstartedServer(api.Guard(service, api.GuardConfig{Gate: gate, Raw: []string{"/api/steps/*/log"}, Log: log}))
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // as the port does
		return ctx
	}
	server.Start()
	s.url = server.URL
	s.close = func() {
		server.Close()
		service.Close()
		s.engine.Close()
		if err := db.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// time returns the time by the clock of the site.
func (s *site) time() time.Time {
	if s.now == nil {
		return time.Now()
	}
	return s.now()
}

// observe keeps what is told of a request.
func (s *site) observe(operation string, status int, replayed bool, _ time.Duration) {
	select {
	case s.seen <- fmt.Sprint(operation, " ", status, " ", replayed):
	default:
	}
}

// An enrolling link calls registered each time it has registered a worker.
type enrolling struct {
	link.Worker
	registered func()
}

func (e enrolling) Link() link.Worker { return e }

func (e enrolling) Register(ctx context.Context, r link.Registration) (*pawl.Worker, func(), error) {
	w, release, err := e.Worker.Register(ctx, r)
	if err == nil {
		e.registered()
	}
	return w, release, err
}

// work registers a worker and runs it until stop is called. Its handler work returns its input, or fails
// if that says so; hold runs until it is stopped.
func (s *site) work() (stop func()) {
	s.t.Helper()
	registered := make(chan struct{})
	w, err := worker.New(enrolling{s.engine.Link(), sync.OnceFunc(func() { close(registered) })}, worker.Config{Name: "clerk", Poll: 20 * time.Millisecond, Beat: 20 * time.Millisecond, DrainTimeout: time.Nanosecond})
	if err != nil {
		s.t.Fatal(err)
	}
	worker.Handle(w, "work", func(_ context.Context, in struct{ Fail string }) (string, error) {
		if in.Fail != "" {
			return "", errors.New(in.Fail)
		}
		return "done", nil
	})
	worker.Handle(w, "hold", func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	select {
	case <-registered:
	case err := <-over:
		s.t.Fatalf("the worker: %v", err)
	}
	return func() {
		cancel()
		var ended *worker.TerminatedError // by the test
		if err := <-over; err != nil && !errors.As(err, &ended) {
			s.t.Errorf("the worker: %v", err)
		}
	}
}

// An answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// field returns a field of a JSON body by a path such as items.0.id.
func (a *answer) field(t testing.TB, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(in) {
				t.Fatalf("there is no %s in %s", path, a.body)
			}
			v = in[i]
		default:
			t.Fatalf("there is no %s in %s", path, a.body)
		}
	}
	return v
}

// do sends a request with a body of JSON, or none.
func (s *site) do(method, path, body string, headers ...string) *answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return &answer{resp.StatusCode, resp.Header, bytes.TrimSpace(b)}
}

// want sends a request and requires a status.
func (s *site) want(status int, method, path, body string, headers ...string) *answer {
	s.t.Helper()
	a := s.do(method, path, body, headers...)
	if a.status != status {
		s.t.Fatalf("%s %s %s: %d, want %d\n%s", method, path, body, a.status, status, a.body)
	}
	return a
}

// text encodes a value as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// The workflows of the tests.
const (
	order = `name: order
inputs: {fail: {type: string, default: ""}}
steps:
  - id: work
    handler: work
    with: {fail: "${{ inputs.fail }}"}
    retry: {max_attempts: 2, base: 1h}
  - id: ship
    needs: [work]
    approval: {prompt: "Ship?", form: {note: {type: string}}}
  - id: paid
    needs: [ship]
    event: {name: paid}
output: ${{ steps.work.output }}
`
	holding = `name: holding
steps: [{id: hold, handler: hold}]
`
	draining = `name: draining
on_error: drain
steps:
  - {id: work, handler: work, with: {fail: "no"}, retry: {max_attempts: 1}}
  - {id: wait, event: {name: go}}
`
)

// polls opens the site again with another poll interval.
func (s *site) polls(interval time.Duration) {
	s.t.Helper()
	s.close()
	s.poll = interval
	s.open()
}
