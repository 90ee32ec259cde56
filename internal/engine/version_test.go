package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// beforeTrees fills a database with the rows of programs older than trees, under their
// schema, and migrates it to the newest version.
func beforeTrees(t *testing.T, db *database) {
	t.Helper()
	migrate := func(to int) { // 0: the newest
		var m interface {
			Version(context.Context) (int, int, error)
			Migrate(context.Context, int) error
		}
		if db.kind == "postgres" {
			schema, err := postgres.OpenSchema(t.Context(), postgres.Config{URL: db.where})
			must(t, err)
			m = schema
		} else {
			file, err := sqlite.Open(t.Context(), sqlite.Config{Path: db.where, AnyVersion: true})
			must(t, err)
			defer file.Close()
			m = file
		}
		_, newest, err := m.Version(t.Context())
		must(t, err)
		if to == 0 {
			to = newest
		}
		must(t, m.Migrate(t.Context(), to))
	}
	if db.kind == "postgres" {
		migrate(7)
		rows, err := os.ReadFile("../store/postgres/testdata/version7.sql")
		must(t, err)
		db.sql(string(rows))
	} else {
		migrate(6)
		rows, err := os.ReadFile("../store/sqlite/testdata/version6.sql")
		must(t, err)
		conn, err := zombie.OpenConn(db.where, zombie.OpenReadWrite)
		must(t, err)
		must(t, sqlitex.ExecuteScript(conn, string(rows), nil))
		must(t, conn.Close())
	}
	migrate(0)
}

// TestK6OlderTrails: trails older than seals and trees verify after `pawl migrate up`,
// continue, and still verify when they have ended; tampering with them is reported as
// before.
func TestK6OlderTrails(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		beforeTrees(t, db)
		s := db.open()
		l := &ledger{T: t, db: db, store: s}
		l.sound("migrated")

		jobs, err := s.Jobs(t.Context(), store.JobFilter{Workflow: "every"})
		must(t, err)
		var open, ended *pawl.Job
		for _, j := range jobs {
			if lifecycle.Job.Ended(j.State) {
				ended = j
			} else {
				open = j
			}
		}
		if len(jobs) != 2 || open == nil || ended == nil {
			t.Fatalf("jobs %v, want one that runs and one that has ended", jobs)
		}
		key := ended.Key()
		of := func(ord pawl.Ord) string { return fmt.Sprintf("job = %d and ord = %d", key, int64(ord)) }
		l.tampered("an old row", "", "update audit set actor = 'nobody' where "+of(0)+" and seq = 1")
		l.tampered("an old row of a step", "", "update audit set reason = 'whatever' where "+of(0)+" and seq = (select max(seq) from audit where "+of(0)+")")
		l.tampered("an old row made new", "", "update audit set seals = "+l.bytes([]byte{2}, false)+" where "+of(0)+" and seq = 1")

		p := start(t, s, setup{handlers: map[string]worker.Handler{
			"echo":  worker.Func(func(context.Context, *worker.Task) (any, error) { return json.RawMessage(`"yes"`), nil }),
			"shaky": worker.Func(func(context.Context, *worker.Task) (any, error) { return json.RawMessage(`{"ok":true}`), nil }),
		}})
		must(t, errorOf(p.engine.Approve(t.Context(), open.ID, "gate", nil, ann)))
		p.signal(open.ID, "go", `{"n":2}`)
		if v := p.wait(open.ID); v.Status != lifecycle.JobCompleted {
			t.Fatal(p.dump(open.ID))
		}
		p.stop()
		l.sound("went on")
		step := fmt.Sprintf("job = %d and ord = %d", open.Key(), int64(pawl.MakeOrd(4, 0)))
		l.tampered("an output that a new row seals", audit.FaultPayload, "update step set output = '{\"n\":3}' where "+step)
	})
}
