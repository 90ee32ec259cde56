package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// marker is in every kind of payload of the jobs of these tests, and nowhere else.
const marker = "s3cret"

// marked is a workflow with every kind of payload.
const marked = `
name: marked
inputs: {secret: {required: true}}
steps:
  - {id: gate, approval: {prompt: "${{ inputs.secret }}?", form: {note: {required: true}}}}
  - {id: shaky, handler: shaky, retry: {max_attempts: 3, base: 1ms}}
  - {id: each, foreach: "${{ [inputs.secret, 'b', inputs.secret] }}", handler: echo}
  - {id: told, event: {name: go}}
  - {id: sub, workflow: inner, inputs: {secret: "${{ inputs.secret }}"}}
  - {id: last, handler: END, needs: [gate, shaky, each, told, sub]}
hooks:
  always: [{id: tidy, handler: echo}]
output: ${{ steps.each.output }}
`

const inner = "name: inner\ninputs: {secret: {required: true}}\nsteps: [{id: one, handler: echo}]\noutput: ${{ steps.one.output }}\n"

// secret is the marker, somewhere in a text of a length that fits a row, or does not.
func secret(size int) string {
	at := rand.IntN(size)
	return strings.Repeat("x", at) + marker + strings.Repeat("y", size-at)
}

func secretHandlers(size int) map[string]worker.Handler {
	quoted := func() json.RawMessage { return json.RawMessage(`{"v":"` + secret(size) + `"}`) }
	var shaken atomic.Int64
	fail := func() *pawl.Failure {
		return &pawl.Failure{Class: "token", Message: "it is " + secret(min(size, 900)), Metadata: quoted()}
	}
	return map[string]worker.Handler{
		"echo": worker.Func(func(context.Context, *worker.Task) (any, error) { return quoted(), nil }),
		"shaky": func(context.Context, *worker.Task) worker.Result {
			if shaken.Add(1)%3 != 0 {
				return worker.Result{Failure: fail()}
			}
			return worker.Result{Output: quoted()}
		},
		"bad": func(context.Context, *worker.Task) worker.Result {
			f := fail()
			f.Permanent = true
			return worker.Result{Failure: f}
		},
	}
}

// A secretive is a database with jobs that have the marker in every kind of payload.
type secretive struct {
	*process
	db    *database
	job   pawl.ID
	child pawl.ID
	ords  map[string]pawl.Ord
}

// newSecretive runs a job to its end, which is that of its last step.
func newSecretive(t *testing.T, db *database, size int, end string) *secretive {
	t.Helper()
	s := &secretive{process: start(t, db.open(), setup{handlers: secretHandlers(size)}), db: db, ords: map[string]pawl.Ord{}}
	s.register(define(t, inner))
	def := define(t, strings.ReplaceAll(marked, "END", end))
	for i := range def.Nodes {
		s.ords[def.Nodes[i].ID] = pawl.MakeOrd(i+1, 0)
	}
	s.job = s.submit(def, fmt.Sprintf(`{"secret": %q}`, secret(size)))
	s.waiting(s.job, "told")
	s.signal(s.job, "go", `{"n":"`+secret(size)+`"}`)
	s.signal(s.job, "go", `{"n":"`+secret(size)+`"}`) // no step takes it
	s.waiting(s.job, "gate")
	must(t, errorOf(s.engine.Approve(t.Context(), s.job, "gate", map[string]any{"note": secret(size)}, ann))) // the job ends
	s.wait(s.job)
	children, err := s.store.Jobs(t.Context(), store.JobFilter{Parent: s.job.JobKey()})
	must(t, err)
	s.child = children[0].ID
	for _, ord := range s.ords {
		db.sql(fmt.Sprintf("insert into refusal (job, ord, at, claim, event, actor, why, data) values (%d, %d, 1, 1, 'success', 'w', 'it came late', '{\"output\":\"%s\"}')", s.job.JobKey(), ord, marker))
		must(t, s.store.AppendLogs(t.Context(), []pawl.Chunk{{StepKey: pawl.StepKey{Job: s.job.JobKey(), Ord: ord}, Claim: 1, Stream: "stdout", At: 1, Data: []byte(secret(size))}}))
	}
	return s
}

var because = pawl.Change{Actor: "ann", Reason: "a token in its inputs"}

func (s *secretive) redact(id pawl.ID, step string) pawl.Redaction {
	s.t.Helper()
	r, err := s.engine.RedactJob(s.t.Context(), id, step, because, nil)
	must(s.t, err)
	return r
}

// found returns where the marker is, in a dump of all tables or in the files.
func (s *secretive) found() string {
	s.t.Helper()
	var where []string
	if s.db.kind == "postgres" {
		return postgresDump(s.t, s.db.where)
	}
	for _, file := range []string{"", "-wal", "-shm", "-logs", "-logs-wal", "-logs-shm"} {
		b, err := os.ReadFile(s.db.where + file)
		if err == nil && bytes.Contains(b, []byte(marker)) {
			at := bytes.Index(b, []byte(marker))
			where = append(where, fmt.Sprintf("%s at %d of %d, %d times: %q", filepath.Base(s.db.where)+file, at, len(b), bytes.Count(b, []byte(marker)), b[max(0, at-100):min(len(b), at+100)]))
		}
	}
	return strings.Join(where, "\n")
}

// postgresDump returns the rows of all tables that have the marker.
func postgresDump(t *testing.T, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "select c.oid::regclass::text from pg_class c where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace")
	must(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	var where []string
	for _, table := range tables {
		// PostgreSQL writes bytes in hexadecimal, and in a list they are in base64.
		sql := fmt.Sprintf("select %q || ': ' || left(t::text, 300) from %[2]s t where t::text like '%%%[3]s%%' or t::text like '%%%[4]x%%' or t::text like '%%%[5]s%%'", table, table, marker, marker, "czNjcmV0")
		rows, err := conn.Query(t.Context(), strings.Replace(sql, `"`+table+`"`, "'"+table+"'", 1))
		must(t, err)
		hits, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		where = append(where, hits...)
	}
	return strings.Join(where, "\n")
}

// sound checks that the trail is in order.
func (s *secretive) sound(what string) {
	s.t.Helper()
	if f, err := verified(s.store, 0); f != nil || err != nil {
		s.t.Fatalf("%s: %v, %v", what, f, err)
	}
}

// TestK6RedactStepKeepsSignals: a signal that comes between the failure of a step and the
// end of its job is not withheld with the error of the step.
func TestK6RedactStepKeepsSignals(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: secretHandlers(20)})
		id := p.submit(define(t, "name: w\non_error: drain\nsteps: [{id: bad, handler: bad}, {id: told, event: {name: go}}]\n"), "")
		p.waiting(id, "told")
		until(t, "the step fails", func() bool { return steps(p.job(id))["bad"].Status == lifecycle.StepPermanentError })
		p.signal(id, "go", `{"n": 1}`)
		if v := p.wait(id); v.Error == nil || v.Error.Step != "bad" {
			t.Fatalf("the job has the error %v, want that of bad", v.Error)
		}
		for _, step := range []string{"bad", "told"} {
			_, err := p.engine.RedactJob(t.Context(), id, step, because, nil)
			must(t, err)
			if f, err := verified(p.store, 0); f != nil || err != nil {
				t.Errorf("without %s: %v, %v", step, f, err)
			}
		}
	})
}

// TestK6RedactJob: after the redaction of a job and its child no byte of their payload is
// left in the database, and the trail is sound; after a redaction by hand it was not.
func TestK6RedactJob(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"echo", "bad"} {
		for _, size := range []int{20, 3000, 60_000} {
			t.Run(fmt.Sprintf("%s, %d bytes", end, size), func(t *testing.T) {
				onShared(t, func(t *testing.T, db *database) {
					s := newSecretive(t, db, size, end)
					s.sound("untouched")
					if s.found() == "" {
						t.Fatal("the marker is nowhere")
					}
					s.redact(s.child, "")
					s.sound("without the child")
					r := s.redact(s.job, "")
					if r.Records < 9 || r.Entries < 10 || r.Beside < 10 || r.Advice != "" {
						t.Errorf("redacted %+v", r)
					}
					s.sound("redacted")
					s.settled(s.job)
					if where := s.found(); where != "" {
						t.Errorf("the marker is left in\n%s", where)
					}
					s.readable()
					if again := s.redact(s.job, ""); again.Records+again.Entries+again.Beside != 0 {
						t.Errorf("redacted again: %+v", again)
					}
					s.sound("twice")
				})
			})
		}
	}
}

// readable checks that everything that shows a job can show a redacted one.
func (s *secretive) readable() {
	s.t.Helper()
	v := s.process.job(s.job)
	if !v.Redacted || string(v.Inputs) != "{}" || string(v.Output) != "null" {
		s.t.Errorf("redacted %v, inputs %s, output %s", v.Redacted, v.Inputs, v.Output)
	}
	if (v.Status == lifecycle.JobFailed) != (v.Error != nil) || v.Error != nil && v.Error.Class != "redacted" {
		s.t.Errorf("%s with the error %v", v.Status, v.Error)
	}
	for i := range v.Steps {
		if st := &v.Steps[i]; !st.Redacted || string(st.Output) != "null" || st.Error != nil && st.Error.Class != "redacted" {
			s.t.Errorf("step %+v", st)
		}
	}
	ctx := s.t.Context()
	list, err := s.engine.Jobs(ctx, pawl.JobQuery{})
	must(s.t, err)
	for i := range list {
		if !list[i].Redacted {
			s.t.Errorf("job %s is not listed as redacted", list[i].ID)
		}
	}
	_, err = s.engine.Why(ctx, s.job, "")
	must(s.t, err)
	_, err = s.engine.Why(ctx, s.job, "shaky")
	must(s.t, err)
	must(s.t, noLogs(ctx, s.engine, s.job, ""))
	history, err := collected(ctx, s.engine.History, s.job)
	must(s.t, err)
	if text, _ := json.Marshal(history); !strings.Contains(string(text), `"redacted":true`) || strings.Contains(string(text), marker) {
		s.t.Errorf("history %s", text)
	}
	past, err := s.engine.Past(ctx, s.job, pawl.Moment{Time: v.CompletedAt})
	must(s.t, err)
	if past.Status != v.Status || past.CompletedAt != v.CompletedAt || !past.Redacted {
		s.t.Errorf("as it was at its end: %s at %s, redacted %v; want %s at %s", past.Status, past.CompletedAt, past.Redacted, v.Status, v.CompletedAt)
	}
	if later, err := s.engine.Past(ctx, s.job, pawl.Moment{Time: v.UpdatedAt}); err != nil || later.CompletedAt != v.CompletedAt {
		s.t.Errorf("after the redaction it ended at %s, %v; want %s", later.CompletedAt, err, v.CompletedAt)
	}
	_, err = s.engine.RetryJob(ctx, s.job, pawl.Retry{From: []string{"last"}}, ann)
	conflicts(s.t, err, "was redacted: its inputs are gone")
}

func conflicts(t *testing.T, err error, text string) {
	t.Helper()
	if pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want a conflict: %s", err, text)
	}
}

// TestK6RedactStep: the redaction of a step removes its payload, that of its instances, the
// signals that it took, and the error of the job if it is the step's.
func TestK6RedactStep(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		s := newSecretive(t, db, 200, "bad")
		id, ctx := s.job, t.Context()
		for i, step := range []string{"each", "told", "last", "gate", "shaky"} {
			s.redact(id, step)
			s.sound(step)
			v := s.process.job(id)
			if v.Redacted {
				t.Fatal("the whole job is redacted")
			}
			ord := s.ords[step]
			for k := range v.Steps {
				if st := &v.Steps[k]; st.Redacted != (st.Ord.Node() == ord.Node()) && i == 0 {
					t.Errorf("after %s: %s is redacted: %v", step, st.Key, st.Redacted)
				}
			}
			if (v.Error.Class == "redacted") != (i >= 2) {
				t.Errorf("after %s: %v", step, v.Error)
			}
			must(t, noLogs(ctx, s.engine, id, step))
			trail, err := s.store.Trail(ctx, store.StepEntity(pawl.StepKey{Job: id.JobKey(), Ord: ord}), 0, 0)
			must(t, err)
			for k := range trail {
				if len(trail[k].Seals) > 0 && !trail[k].Withheld() {
					t.Errorf("%s: entry %d keeps %v", step, k+1, trail[k].Seals)
				}
			}
		}
		data, _, err := s.store.SignalData(ctx, id.JobKey(), 0)
		must(t, err)
		gone := 0
		for _, d := range data {
			if d == nil {
				gone++
			}
		}
		if gone != 1 {
			t.Errorf("the data of %d signals is gone, want 1: %v", gone, data)
		}
		if j, err := s.store.Job(ctx, id.JobKey()); err != nil || j.Error != nil || j.Inputs == nil {
			t.Errorf("the job has the error %v and the inputs %s, %v", j.Error, j.Inputs, err)
		}
		_, err = s.engine.RetryJob(ctx, id, pawl.Retry{}, ann)
		conflicts(t, err, "was redacted: its result is gone")
		again, err := madeBy(s.engine.RetryJob(ctx, id, pawl.Retry{From: []string{"gate", "shaky", "each", "told"}}, ann))
		must(t, err)
		_, err = s.engine.RedactJob(ctx, id, "", because, nil)
		conflicts(t, err, again.Public(pawl.JobPrefix)+" needs it")
	})
}

// TestK6RedactRefused: an impossible redaction is refused with one clear error, and leaves
// no trace.
func TestK6RedactRefused(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: secretHandlers(10)})
		p.register(define(t, strings.Replace(inner, "handler: echo", `approval: {prompt: "?"}`, 1)))
		id := p.submit(define(t, "name: outer\nsteps:\n  - {id: sub, workflow: inner, inputs: {secret: x}}\n  - {id: each, foreach: [1], handler: echo}\n"), "")
		p.waiting(id, "sub")
		redact := func(id pawl.ID, step, reason string) error {
			_, err := p.engine.RedactJob(t.Context(), id, step, pawl.Change{Actor: "ann", Reason: reason}, nil)
			return err
		}
		conflicts(t, redact(id, "", "x"), "is RUNNING: only a job that has ended can be redacted")
		children, err := p.store.Jobs(t.Context(), store.JobFilter{Parent: id.JobKey()})
		must(t, err)
		must(t, errorOf(p.engine.Cancel(t.Context(), children[0].ID, note("enough"))))
		p.wait(id)
		for _, x := range []struct {
			step, reason, want string
			kind               pawl.Kind
		}{
			{"", " ", "reason: want why", pawl.Invalid},
			{"nope", "x", `no step "nope": want one of sub, each`, pawl.NotFound},
			{"each[0]", "x", `step "each[0]": want each`, pawl.Invalid},
		} {
			if err := redact(id, x.step, x.reason); pawl.KindOf(err) != x.kind || !strings.Contains(err.Error(), x.want) {
				t.Errorf("step %q, reason %q: %v, want %s", x.step, x.reason, err, x.want)
			}
		}
		if v := p.job(id); v.StateHistory[len(v.StateHistory)-1].Event == lifecycle.JobRedact {
			t.Errorf("a refused redaction is in the trail")
		}
	})
}

// TestK6RedactOnce: the same request twice is one entry of the trail (J8).
func TestK6RedactOnce(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: secretHandlers(10)})
		id := p.submit(define(t, inner), `{"secret":"s3cret"}`)
		p.wait(id)
		c := because
		c.RequestID = "r-1"
		for range 2 {
			_, err := p.engine.RedactJob(t.Context(), id, "", c, nil)
			must(t, err)
		}
		n := 0
		for _, h := range p.job(id).StateHistory {
			if h.Event == lifecycle.JobRedact {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d redact entries, want 1", n)
		}
	})
}

// TestK6WithheldByHand: payload removed by hand, with its random bytes, is not a redaction;
// nor is payload that is restored after one.
func TestK6WithheldByHand(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		l := newLedger(t, db)
		key, ctx := l.job.JobKey(), t.Context()
		l.unpack(key)
		l.unpack(l.child)
		must(t, l.store.Trails(ctx, key, func(trail store.TrailOf) error {
			for i := range trail.Entries {
				e := trail.Entries[i]
				if len(e.Seals) == 0 {
					continue
				}
				l.tampered(fmt.Sprintf("withheld in %d of %s", e.Sequence, trail.ID), audit.FaultPayload, l.withheld(&trail, e)...)
			}
			return nil
		}))
		p := start(t, l.store, setup{})
		for _, id := range []pawl.ID{l.job} {
			_, err := p.engine.RedactJob(ctx, id, "", because, nil)
			must(t, err)
		}
		l.sound("redacted")
		for what, sql := range map[string]string{
			"inputs put back":  fmt.Sprintf("update job set inputs = '{\"secret\":\"hunter3\"}' where id = %d", key),
			"an output":        fmt.Sprintf("update step set output = '1' where job = %d and ord = %d", key, l.ords["each[2]"]),
			"data of a signal": fmt.Sprintf("update signal set data = '1' where job = %d", key),
		} {
			l.tampered(what, audit.FaultPayload, sql)
		}
		l.tampered("the redact entry removed", "", fmt.Sprintf("delete from audit where job = %d and ord = 0 and event = 'redact'", key))
		l.tampered("its scope", audit.FaultHash, fmt.Sprintf("update audit set metadata = %s where job = %d and ord = 0 and event = 'redact'", l.bytes([]byte(`{"step":"each","node":3}`), db.kind != "postgres"), key))
		p.stop()
	})
}

// withheld returns the statements that remove the payload of an entry, from its record too.
func (l *ledger) withheld(t *store.TrailOf, e audit.Entry) []string {
	e.Withhold()
	list := []string{fmt.Sprintf("update audit set seals = %s where job = %d and ord = %d and seq = %d", l.bytes(e.AppendExtra(nil), false), t.Job, t.Ord, e.Sequence)}
	for i := range e.Seals {
		switch field := e.Seals[i].Field; field {
		case audit.FieldFailure, audit.FieldError:
			list = append(list, fmt.Sprintf("update step set error = null where job = %d and ord = %d", t.Job, t.Ord))
		case audit.FieldData:
			list = append(list, fmt.Sprintf("update signal set data = null where job = %d and seq = %d", t.Job, e.Sequence))
		default:
			if t.Ord == 0 {
				list = append(list, fmt.Sprintf("update job set %s = null where id = %d", field, t.Job))
			} else {
				list = append(list, fmt.Sprintf("update step set %s = null where job = %d and ord = %d", field, t.Job, t.Ord))
			}
		}
	}
	return list
}

var errKilled = errors.New("killed")

// A dying store fails after some steps of redactions, and counts the work of each.
type dying struct {
	store.Store
	left  int
	steps int
	most  int64
}

func (d *dying) Redact(ctx context.Context, r *store.Redaction, from store.RedactPlace) (store.Redacted, error) {
	if d.left--; d.left < 0 {
		return store.Redacted{}, errKilled
	}
	done, err := d.Store.Redact(ctx, r, from)
	d.steps++
	d.most = max(d.most, done.Records, done.Beside)
	return done, err
}

func (d *dying) Scrub(ctx context.Context, job rowkey.Job) (string, error) {
	if d.left--; d.left < 0 {
		return "", errKilled
	}
	return d.Store.Scrub(ctx, job)
}

// TestK6RedactGoesOn: a redaction that stops at any step is sound as far as it got, and an
// evaluator completes it. Steps are bounded: a wide job takes several.
func TestK6RedactGoesOn(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: secretHandlers(30), capacity: 50})
		wide := fmt.Sprintf("name: wide\ninputs: {secret: {required: true}}\nsteps: [{id: each, foreach: '${{ map(1..%d, inputs.secret) }}', parallel: 100, handler: echo}]\n", 2*store.RedactRows)
		id := p.submit(define(t, wide), `{"secret":"s3cret"}`)
		p.waitFor(id, 2*patience)
		p.stop()
		d := &dying{Store: db.open()}
		began := false
		for left := 0; ; left++ {
			d.left = left
			q := engine.New(engine.Config{Store: d, Passive: true})
			err := error(nil)
			if !began {
				_, err = q.RedactJob(t.Context(), id, "", because, nil)
				began = true
			} else {
				c := because
				c.RequestID = "again" // the first of these adds an entry, the others continue it
				_, err = q.RedactJob(t.Context(), id, "", c, nil)
			}
			q.Close()
			if f, bad := verified(d.Store, 0); f != nil || bad != nil {
				t.Fatalf("after %d steps: %v, %v", left, f, bad)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if left == 4 { // an evaluator does the rest
				break
			}
		}
		if d.most > store.RedactRows {
			t.Errorf("one step did %d rows, of at most %d", d.most, store.RedactRows)
		}
		db.sql("update job set mark_at = 1 where mark_at > 0") // as if the process at work were dead
		again := start(t, db.open(), setup{})
		until(t, "the redaction is finished", func() bool {
			j, err := again.store.Job(t.Context(), id.JobKey())
			return err == nil && j.Mark == pawl.Clear
		})
		s := &secretive{process: again, db: db, job: id}
		s.sound("finished")
		if where := s.found(); where != "" {
			t.Errorf("the marker is left in\n%s", where)
		}
	})
}

// TestK6RedactOld: the payload of entries of version 1 is hashed with them. It is removed
// anyway, and the trail of the job names each such entry.
func TestK6RedactOld(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		for _, step := range []string{"", "shaky", "last"} {
			s := newSecretive(t, db, 50, "bad")
			s.age(s.job)
			s.sound("aged")
			s.redact(s.job, step)
			s.sound("redacted")
			var export bytes.Buffer
			blanked, left := 0, 0
			must(t, s.store.Trails(t.Context(), s.job.JobKey(), func(trail store.TrailOf) error {
				for i := range trail.Entries {
					if e := &trail.Entries[i]; e.Redacted() {
						blanked++
					} else if strings.Contains(e.Reason+string(e.Metadata), marker) {
						left++
					}
				}
				return audit.WriteLines(&export, trail.Entries)
			}))
			if blanked < 2 || step == "" && left > 0 {
				t.Errorf("step %q: %d entries are blank, and %d have the marker", step, blanked, left)
			}
			if _, err := audit.VerifyLines(bytes.NewReader(export.Bytes())); err != nil {
				t.Errorf("step %q: export: %v", step, err)
			}
			lines := strings.SplitAfter(export.String(), "\n")
			for i, line := range lines {
				if strings.Contains(line, `"metadata":{"redacted":true}`) {
					lines[i] = strings.Replace(line, `"actor":"`, `"actor":"x`, 1)
					break
				}
			}
			if _, err := audit.VerifyLines(strings.NewReader(strings.Join(lines, ""))); err == nil || !strings.Contains(err.Error(), "no redact entry of its job names it") {
				t.Errorf("step %q: an edited export of a blank entry: %v", step, err)
			}
			if step == "" {
				s.redact(s.child, "")
				if where := s.found(); where != "" {
					t.Errorf("the marker is left in\n%s", where)
				}
				db.sql(fmt.Sprintf("update audit set actor = 'nobody' where job = %d and ord = %d and event = 'fail'", s.job.JobKey(), s.ords["shaky"]))
				if f, err := verified(s.store, 0); err != nil || f == nil || f.Code != audit.FaultHash {
					t.Errorf("a blank entry was edited: %v, %v", f, err)
				}
				db.sql(fmt.Sprintf("delete from audit where job = %d", s.job.JobKey()))
				db.sql(fmt.Sprintf("delete from step where job = %d", s.job.JobKey()))
				db.sql(fmt.Sprintf("delete from job where id = %d", s.job.JobKey()))
			}
			s.stop()
			s.purge()
		}
	})
}

// purge removes all jobs, so that the next one is alone in the database.
func (s *secretive) purge() {
	for _, table := range []string{"job", "step", "audit", "signal", "refusal"} {
		s.db.sql("delete from " + table)
	}
	if s.db.kind == "postgres" {
		s.db.sql("delete from log")
	} else {
		must(s.t, execSQLite(s.db.where+"-logs", "delete from chunk"))
	}
}

// age turns a job into one older than seals: with payload in the rows.
func (s *secretive) age(id pawl.ID) {
	s.t.Helper()
	l := &ledger{T: s.t, db: s.db, store: s.store}
	key := id.JobKey()
	var statements []string
	must(s.t, s.store.Trails(s.t.Context(), key, func(t store.TrailOf) error {
		var prev audit.Hash
		var rows []string
		for i := range t.Entries {
			e := t.Entries[i]
			if failure := e.Payload(audit.FieldFailure); failure != nil {
				e.Reason, e.Metadata = "it is "+marker, append(append([]byte(`{"claim":1,"failure":`), failure...), '}')
			}
			if e.Event == lifecycle.JobError || e.Event == lifecycle.JobHalt {
				e.Reason = "it is " + marker
			}
			e.Version, e.Seals, e.Tree, e.Again, e.Folded = 0, nil, nil, 0, 0
			e.Seal(prev)
			prev = e.Hash
			meta := "null"
			if len(e.Metadata) > 0 {
				meta = l.bytes(e.Metadata, s.db.kind != "postgres")
			}
			rows = append(rows, fmt.Sprintf("(%d, %d, %d, '%s', '%s', '%s', '%s', '%s', %s, %d, %s)", t.Job, t.Ord, e.Sequence, e.To, e.Event, e.Reason, e.Actor, e.RequestID, meta, e.At, l.bytes(e.Hash[:], false)))
		}
		record, where := "step", fmt.Sprintf("job = %d and ord = %d", t.Job, t.Ord)
		if t.Ord == 0 {
			record, where = "job", fmt.Sprintf("id = %d", t.Job)
		} else {
			record += " set folded = 0"
			statements = append(statements, "update "+record+" where "+where)
			record = "step"
		}
		statements = append(statements, "insert into audit (job, ord, seq, state, event, reason, actor, request_id, metadata, at, hash) values "+strings.Join(rows, ", "),
			fmt.Sprintf("update %s set tree = null, head = %s where %s", record, l.bytes(prev[:], false), where))
		return nil
	}))
	s.db.sql(fmt.Sprintf("delete from audit where job = %d", key))
	for _, sql := range statements {
		s.db.sql(sql)
	}
}

// TestK6RedactIsSeenMeanwhile: a verification during redactions finds no fault.
func TestK6RedactIsSeenMeanwhile(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: secretHandlers(30)})
		var ids []pawl.ID
		for range 30 {
			ids = append(ids, p.submit(define(t, inner), `{"secret":"s3cret"}`))
		}
		for _, id := range ids {
			p.wait(id)
		}
		other := db.open()
		done := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if f, err := verified(other, 0); f != nil || err != nil {
					done <- fmt.Errorf("%v, %w", f, err)
					return
				}
			}
			done <- nil
		}()
		for _, id := range ids {
			_, err := p.engine.RedactJob(t.Context(), id, "", because, nil)
			must(t, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// noLogs returns an error if there are logs.
func noLogs(ctx context.Context, e *engine.Engine, id pawl.ID, step string) error {
	return e.Logs(ctx, id, step, func(l pawl.LogLine) error { return fmt.Errorf("step %s of the job has logs: %v", step, l) })
}
