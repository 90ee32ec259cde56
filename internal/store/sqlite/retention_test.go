package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A past is a database with jobs that ended long ago, each with a log.
type past struct {
	*testing.T
	db     *DB
	mint   *storetest.Mint
	at     int64
	policy *store.Policy
}

func newPast(t *testing.T) *past {
	t.Helper()
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	now := time.Now()
	return &past{T: t, db: db, mint: storetest.NewMint(), at: pawl.Micros(now.AddDate(0, 0, -9)),
		policy: &store.Policy{Before: pawl.Micros(now.AddDate(0, 0, -5)), Actor: "retention", Reason: "old"}}
}

// job adds a job that is CANCELED, or open and continues another.
func (p *past) job(at int64, continues rowkey.Job) rowkey.Job {
	p.Helper()
	return p.wide(at, continues, 0)
}

// wide is job with so many steps.
func (p *past) wide(at int64, continues rowkey.Job, steps int) rowkey.Job {
	p.Helper()
	j := &pawl.Job{ID: p.mint.ID(at), Workspace: "w", Workflow: "flow", WorkerCount: 1, Continues: continues, Inputs: []byte("{}"), Metadata: []byte("{}")}
	err := p.db.Do(p.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(at)
		b.AddJob(j)
		for i := range steps {
			b.AddStep(j, &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, i)}})
		}
		if continues == 0 {
			b.MoveJob(j, lifecycle.JobCancel)
		}
		return &b.Changes, nil
	})
	if err == nil {
		err = p.db.AppendLogs(p.Context(), []pawl.Chunk{{StepKey: pawl.StepKey{Job: j.Key(), Ord: 1}, Claim: 1, Stream: "stdout", At: at, Data: []byte("x")}})
	}
	if err != nil {
		p.Fatal(err)
	}
	return j.Key()
}

func (p *past) candidates() []old {
	p.Helper()
	keys, err := p.db.candidates(p.Context(), &removals[0], p.policy, store.Place{Kind: lifecycle.Job.Name})
	if err != nil {
		p.Fatal(err)
	}
	return keys
}

func (p *past) hasLogs(job rowkey.Job) bool {
	p.Helper()
	chunks, err := p.db.Logs(p.Context(), job, 0, store.LogPlace{}, 100)
	if err != nil {
		p.Fatal(err)
	}
	return len(chunks) > 0
}

// TestLogsOfAJobThatStays: a job that is retried after it was found to be old stays,
// and with its logs (K6).
func TestLogsOfAJobThatStays(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	a, b := p.job(p.at, 0), p.job(p.at, 0)
	keys := p.candidates()
	p.job(pawl.Micros(time.Now()), a)
	r, err := p.db.remove(t.Context(), &removals[0], p.policy, store.Place{Kind: lifecycle.Job.Name}, keys)
	if err != nil || r.Count != 1 {
		t.Fatalf("removed %+v, %v, want the other job", r, err)
	}
	if !p.hasLogs(a) || p.hasLogs(b) {
		t.Errorf("the job that stays has its logs: %v; the one that is gone: %v", p.hasLogs(a), p.hasLogs(b))
	}
}

// TestLogsOfARemovedJob: what a process leaves that dies after it has removed jobs, and
// before their logs, is found by the next one, however many jobs stay (K6).
func TestLogsOfARemovedJob(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	var gone, stay []rowkey.Job
	for range 3 {
		gone = append(gone, p.job(p.at, 0))
	}
	keys := p.candidates()
	err := p.db.writer.transact(t.Context(), func(c *conn) error {
		u := &unit{c: c, m: &removals[0], policy: p.policy, now: p.db.now(), left: retainRows}
		return u.run(keys)
	})
	if err != nil {
		t.Fatal(err)
	}
	for range logPage + 1 { // open jobs of that day
		stay = append(stay, p.job(p.at, gone[0]))
	}
	for from := (store.Place{}); ; {
		r, err := p.db.Retain(t.Context(), p.policy, from)
		if err != nil {
			t.Fatal(err)
		}
		if from = r.Next; r.Done {
			break
		}
	}
	for _, job := range gone {
		if p.hasLogs(job) {
			t.Errorf("job %d has left logs", job)
		}
	}
	if !p.hasLogs(stay[0]) || !p.hasLogs(stay[logPage]) {
		t.Error("a job that stays has lost its logs")
	}
}

// rows counts the rows of jobs by table.
func (p *past) rows() (steps, entries, removals int64) {
	p.Helper()
	err := p.db.read(p.Context(), "count", func(c *conn) (err error) {
		if steps, err = c.number("SELECT count(*) FROM step"); err != nil {
			return err
		}
		if known, err := c.knowsRemovals(); err != nil || !known {
			return err
		}
		if removals, err = c.number("SELECT count(*) FROM removal"); err != nil {
			return err
		}
		entries, err = c.number("SELECT count(*) FROM audit")
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return steps, entries, removals
}

// step goes one step of retention from the beginning.
func (p *past) step() store.Removed {
	p.Helper()
	r, err := p.db.Retain(p.Context(), p.policy, store.Place{})
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// TestRetentionBeforeRemovals: on a schema of the version before, a job is removed in one
// transaction, whatever its size, and trails are read (J10).
func TestRetentionBeforeRemovals(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.wide(p.at, 0, 2*retainRows)
	if err := p.db.Migrate(t.Context(), removalsVersion-1); err != nil {
		t.Fatal(err)
	}
	trails := 0
	if err := p.db.Trails(t.Context(), 0, func(store.TrailOf) error { trails++; return nil }); err != nil || trails != 1+2*retainRows {
		t.Fatalf("%d trails, %v", trails, err)
	}
	r := p.step()
	if steps, _, _ := p.rows(); r.Count != 1 || steps != 0 {
		t.Errorf("%d jobs removed, %d steps left, want 1 and none", r.Count, steps)
	}
}

// TestTheWayDownEndsRemovals: a program of the version before finds nothing of a job that
// was removed in part (J10).
func TestTheWayDownEndsRemovals(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.wide(p.at, 0, 2*retainRows)
	p.step()
	if steps, _, removals := p.rows(); steps == 0 || removals != 1 {
		t.Fatalf("%d steps left, %d jobs removed in part", steps, removals)
	}
	for _, to := range []int{removalsVersion - 1, removalsVersion} {
		if err := p.db.Migrate(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	if steps, entries, removals := p.rows(); steps+entries+removals != 0 {
		t.Errorf("%d steps, %d rows of trails, %d removals left", steps, entries, removals)
	}
}

// TestARemovalOfAJobThatIsThere is nobody's word: the job stays, and is shown (K6).
func TestARemovalOfAJobThatIsThere(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	job := p.wide(pawl.Micros(time.Now()), 0, 3)
	if err := p.db.writer.transact(t.Context(), func(c *conn) error {
		return c.run(insertRemoval, func(b *row) { b.int(int64(job)) })
	}); err != nil {
		t.Fatal(err)
	}
	for from := (store.Place{}); ; {
		r, err := p.db.Retain(t.Context(), p.policy, from)
		if err != nil {
			t.Fatal(err)
		}
		if from = r.Next; r.Done {
			break
		}
	}
	trails := 0
	if err := p.db.Trails(t.Context(), 0, func(store.TrailOf) error { trails++; return nil }); err != nil || trails != 4 {
		t.Errorf("%d trails, %v, want 4", trails, err)
	}
}
