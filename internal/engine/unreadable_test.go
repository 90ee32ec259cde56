package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// A journal keeps what was logged, line by line and without times.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Split(strings.TrimSpace(j.buf.String()), "\n")
}

func (j *journal) logger() *slog.Logger {
	timeless := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: timeless}))
}

// loggedProcess is a process whose worker takes one step at a time, with a store
// that logs too.
func loggedProcess(t *testing.T, db *database, log *slog.Logger, handlers map[string]worker.Handler) *process {
	t.Helper()
	var s store.Store
	var err error
	if db.kind == "postgres" {
		s, err = postgres.Open(t.Context(), postgres.Config{URL: db.where, Log: log})
	} else {
		s, err = sqlite.Open(t.Context(), sqlite.Config{Path: db.where, Log: log})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := &process{t: t, store: s, config: setup{handlers: handlers, capacity: 1}}
	p.engine = engine.New(engine.Config{Store: s, Poll: 50 * time.Millisecond, Silence: time.Hour, Log: log})
	p.startWorker()
	t.Cleanup(p.stop)
	return p
}

const unreadableCount = 6

// queued fills a database so that steps and pending jobs of a workflow wait at the head of
// a queue that no worker serves yet, with as many of another workflow behind them.
func queued(t *testing.T, db *database) (bad, good []pawl.ID) {
	t.Helper()
	s := db.open()
	defer s.Close()
	p := start(t, s, setup{handlers: map[string]worker.Handler{"first": done}})
	defer p.stop()
	for _, name := range []string{"bad", "good"} {
		of := &bad
		if name == "good" {
			of = &good
		}
		chain := define(t, "name: "+name+"\nsteps:\n  - {id: a, handler: first}\n  - {id: b, handler: second, needs: [a]}")
		single := define(t, "name: "+name+"\nsteps:\n  - {id: b, handler: second}")
		for range unreadableCount {
			*of = append(*of, p.submit(chain, ""), p.submit(single, ""))
		}
		until(t, "the steps of "+name+" are enqueued", func() bool {
			enqueued, _, err := s.InFlight(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, c := range enqueued {
				n += c
			}
			return n == len(bad)/2+len(good)/2
		})
	}
	return bad, good
}

func done(context.Context, *worker.Task) worker.Result {
	return worker.Result{Output: json.RawMessage(`"done"`)}
}

// passedOver runs the good jobs with a worker that takes one step at a time, and checks
// that at least that many faults were logged, each once.
func passedOver(t *testing.T, db *database, good []pawl.ID, faults int) *process {
	t.Helper()
	log := &journal{}
	p := loggedProcess(t, db, log.logger(), map[string]worker.Handler{"first": done, "second": done})
	for _, id := range good {
		if _, err := p.engine.Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	said := make(map[string]int)
	for _, line := range log.lines() {
		said[line]++
	}
	if len(said) < faults {
		t.Errorf("%d faults in the log, want %d or more: %v", len(said), faults, said)
	}
	for line, n := range said {
		if n != 1 {
			t.Errorf("said %d times, want once: %s", n, line)
		}
	}
	return p
}

// bytes returns bytes as an SQL literal.
func (db *database) bytes(hex string) string {
	if db.kind == "postgres" {
		return `'\x` + hex + `'::bytea`
	}
	return "x'" + hex + "'"
}

// TestADefinitionThatCannotBeReadHoldsUpNoQueue: a worker with one slot skips enqueued
// steps and pending jobs whose definition is missing or damaged. These stay in the queue
// for a process that can read the definition, and have a reason (K5, T9).
func TestADefinitionThatCannotBeReadHoldsUpNoQueue(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"missing": "delete from definition where name = 'bad'",
		"damaged": "update definition set source = BYTES where name = 'bad'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onShared(t, func(t *testing.T, db *database) {
				bad, good := queued(t, db)
				db.sql(strings.ReplaceAll(statement, "BYTES", db.bytes("7b")))
				p := passedOver(t, db, good, 2) // definitions
				for i, id := range bad {
					j, err := p.store.Job(t.Context(), id.JobKey())
					if err != nil {
						t.Fatal(err)
					}
					if want := []any{lifecycle.JobRunning, lifecycle.JobPending}[i%2]; j.State != want || j.Paused {
						t.Errorf("a job is %s, paused %v; want it %s", j.State, j.Paused, want)
					}
					reasons, err := p.engine.Why(t.Context(), id, "")
					if err != nil || len(reasons) != 1 || reasons[0].Kind != pawl.ReasonUnreadable {
						t.Errorf("reasons %+v, %v; want one of kind %s", reasons, err, pawl.ReasonUnreadable)
					}
				}
				if jobs, err := p.engine.Jobs(t.Context(), pawl.JobQuery{}); err != nil || len(jobs) != len(bad)+len(good) {
					t.Errorf("%d jobs are listed, %v; want all %d", len(jobs), err, len(bad)+len(good))
				}
			})
		})
	}
}

// TestADamagedRowHoldsUpNoQueue: the same for rows that cannot be decoded.
func TestADamagedRowHoldsUpNoQueue(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		bad, good := queued(t, db)
		db.sql("update step set head = " + db.bytes("00") + " where state = 'enqueued' and job in (select id from job where workflow = 'bad')")
		db.sql("update job set head = " + db.bytes("00") + " where state = 'PENDING' and workflow = 'bad'")
		// They have waited longer than the horizon of claims.
		db.sql("update step set rank = rank - 60000000")
		db.sql("update job set rank = rank - 60000000")
		p := passedOver(t, db, good, len(bad))
		for i, id := range bad {
			reasons, err := p.engine.Why(t.Context(), id, "")
			if i%2 == 1 { // the job itself
				if err == nil || !strings.Contains(err.Error(), "damaged") {
					t.Errorf("reasons %+v, %v; want it said that the job is damaged", reasons, err)
				}
				continue
			}
			if main := pawl.MainReason(reasons); err != nil || main == nil || main.Kind != pawl.ReasonUnreadable || main.Step != "b" {
				t.Errorf("reasons %+v, %v; want step b %s", reasons, err, pawl.ReasonUnreadable)
			}
		}
	})
}
