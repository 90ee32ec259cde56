package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// past returns noon of the day so many days ago, and makes its partitions.
func past(t *testing.T, db *DB, ago int) int64 {
	t.Helper()
	noon := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -ago)
	for _, table := range []string{"audit", "log"} {
		if err := db.partition(t.Context(), table, noon); err != nil {
			t.Fatal(err)
		}
	}
	return pawl.Micros(noon.Add(12 * time.Hour))
}

// oldJobs stores jobs with a step each that were made, and canceled, at a time.
func oldJobs(t *testing.T, db *DB, at int64, n int, canceled bool) []*pawl.Job {
	t.Helper()
	var jobs []*pawl.Job
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		d.now = at
		for range n {
			j := &pawl.Job{ID: pawl.MakeID(pawl.Time(at), counter.Add(1), 1), Workspace: "default", Workflow: "noop"}
			j.CreatedAt = at
			d.entry(keyOf(j), &j.Record, j.ID.Public("j_"), "", lifecycle.JobSubmitted, lifecycle.JobSubmit)
			if canceled {
				d.entry(keyOf(j), &j.Record, j.ID.Public("j_"), lifecycle.JobSubmitted, lifecycle.JobCanceled, lifecycle.JobCancel)
			}
			d.NewJobs = append(d.NewJobs, j)
			d.newStep(j, 1, 0)
			jobs = append(jobs, j)
		}
	})
	for _, j := range jobs {
		err := db.AppendLogs(t.Context(), []pawl.Chunk{{StepKey: first(j), Claim: 1, Stream: "stdout", At: at, Data: []byte("x")}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return jobs
}

func month() *store.Policy {
	return &store.Policy{Before: pawl.Micros(time.Now().AddDate(0, 0, -30)), Actor: "retention", Reason: "older than 30d"}
}

// retain goes one step after the other until there is none, or others are at it,
// and returns how many entities were removed.
func retain(t *testing.T, db *DB, each func(store.Removed)) (total int64) {
	t.Helper()
	return retainBy(t, db, month(), each)
}

func retainBy(t *testing.T, db *DB, p *store.Policy, each func(store.Removed)) (total int64) {
	t.Helper()
	for from := (store.Place{}); ; {
		r, err := db.Retain(t.Context(), p, from)
		if err != nil {
			t.Fatal(err)
		}
		if each != nil {
			each(r)
		}
		total += r.Count
		if from = r.Next; r.Done {
			return total
		}
	}
}

func numberOf(t *testing.T, db *DB, sql string) (n int) {
	t.Helper()
	if err := db.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func checkTrails(t *testing.T, db *DB, want int) {
	t.Helper()
	n := 0
	err := db.Trails(t.Context(), 0, func(tr store.TrailOf) error { n++; checkTrail(t, tr); return nil })
	if err != nil || n != want {
		t.Errorf("%d trails, %v, want %d", n, err, want)
	}
}

// TestADayIsDropped with the partitions of its trail and its logs, records first;
// at each step every trail that is shown verifies (K6).
func TestADayIsDropped(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	oldJobs(t, db, past(t, db, 40), retainJobs+50, true)
	oldJobs(t, db, past(t, db, 39), 2, true)
	oldJobs(t, db, past(t, db, 39), 1, false)
	past(t, db, 38) // nothing happened
	partitions := "select count(*) from pg_inherits where inhparent in ('audit'::regclass, 'log'::regclass)"
	before, pending := numberOf(t, db, partitions), 0
	total := retain(t, db, func(store.Removed) {
		pending += numberOf(t, db, "select count(*) from anchor where pending <> 0")
		checkTrails(t, db, 2*numberOf(t, db, "select count(*) from job"))
	})
	if total != retainJobs+50 || pending != 3 {
		t.Errorf("%d jobs removed, %d steps ended with their trails still there; want %d and 3", total, pending, retainJobs+50)
	}
	if n := numberOf(t, db, partitions); n != before-4 {
		t.Errorf("%d partitions, want four less than %d", n, before)
	}
	for _, table := range []string{"job", "step", "log"} {
		if n := numberOf(t, db, "select count(*) from "+table); n != 3 {
			t.Errorf("%d rows in %s: want those of the day on which a job has not ended", n, table)
		}
	}
	p, err := db.Prospects(t.Context(), month().Before)
	if diff := cmp.Diff(pawl.Prospect{Kind: "job", Open: 1, Beside: 2}, p[0]); err != nil || diff != "" {
		t.Errorf("prospects: %v (-want +got):\n%s", err, diff)
	}
}

// TestAPartitionIsNotWaitedFor: while somebody reads the trail for long, its
// partitions stay, writers go on, and what was removed is not shown; the partition
// goes when the reader has.
func TestAPartitionIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	oldJobs(t, db, past(t, db, 40), 3, true)
	reader, err := db.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(context.Background())
	var rows int
	if err := reader.QueryRow(t.Context(), "select count(*) from audit").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	stop, written := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				written <- n
				return
			default:
				submit(t, db, 1, 1)
			}
		}
	}()
	busy := 0
	total := retain(t, db, func(r store.Removed) {
		if r.Busy != "" {
			busy++
		}
	})
	submit(t, db, 1, 1)
	close(stop)
	n := <-written + 1
	if total != 3 || busy != 1 {
		t.Errorf("%d jobs removed, %d steps that found somebody at it; want 3 and 1", total, busy)
	}
	if n := numberOf(t, db, "select count(*) from anchor where pending <> 0"); n != 1 {
		t.Errorf("%d pending anchors, want 1", n)
	}
	checkTrails(t, db, 2*n)
	if err := reader.QueryRow(t.Context(), "select count(*) from audit").Scan(&rows); err != nil {
		t.Error(err)
	}
	reader.Rollback(t.Context())
	retain(t, db, nil)
	if n := numberOf(t, db, "select count(*) from anchor where pending <> 0"); n != 0 {
		t.Errorf("%d pending anchors once the reader is gone", n)
	}
	if left := numberOf(t, db, "select count(*) from trail"); left != 3*n {
		t.Errorf("%d entries left, want those of the %d jobs that were submitted meanwhile", left, n)
	}
	checkTrails(t, db, 2*n)
}

// TestTrailsBesideADrop: a walk through the trails that has begun keeps the
// partitions that it is going to read.
func TestTrailsBesideADrop(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	oldJobs(t, db, past(t, db, 40), 1, true)
	shown := 0
	err := db.Trails(t.Context(), 0, func(tr store.TrailOf) error {
		if shown++; shown == 1 {
			retain(t, db, nil)
		}
		checkTrail(t, tr)
		return nil
	})
	if err != nil || shown != 2 {
		t.Errorf("%d trails, %v, want 2", shown, err)
	}
	checkTrails(t, db, 0)
}

// TestLogsMoveToPartitions on the way up to version 3, and back (J10).
func TestLogsMoveToPartitions(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := append(oldJobs(t, db, past(t, db, 40), 2, true), oldJobs(t, db, past(t, db, 2), 1, true)...)
	execute(t, db, "drop table log_"+time.Now().UTC().AddDate(0, 0, -2).Format("20060102")) // and one day without
	again := []pawl.Chunk{{StepKey: first(jobs[2]), Claim: 1, Stream: "stdout", At: 1, Data: []byte("x")}}
	if err := db.AppendLogs(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	url := db.cfg.URL
	look := func() map[string][]string {
		all := dump(t, url)
		delete(all, "audit") // which has other rows on the way down, of the same trail
		return all
	}
	before := look()
	db.Close()
	for range 2 {
		migrate(t, db.Schema, 2)
		if diff := cmp.Diff(before, look()); diff != "" {
			t.Errorf("after the way down (-before +after):\n%s", diff)
		}
		migrate(t, db.Schema, len(migrations()))
		if diff := cmp.Diff(before, look()); diff != "" {
			t.Errorf("after the way up (-before +after):\n%s", diff)
		}
	}
	db = open(t, url)
	if n := numberOf(t, db, "select count(*) from log_rest"); n != 0 {
		t.Errorf("%d chunks outside of the days", n)
	}
	retain(t, db, nil)
	if n := numberOf(t, db, "select count(*) from log"); n != 1 {
		t.Errorf("%d chunks left, want that of the day that is too young", n)
	}
}

// TestVersionTwoKeepsWhatWasRemoved: the way down leaves no trail of a job that
// was removed, though its partition was still to be dropped.
func TestVersionTwoKeepsWhatWasRemoved(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	oldJobs(t, db, past(t, db, 40), 3, true)
	submit(t, db, 1, 1)
	if r, err := db.Retain(t.Context(), month(), store.Place{}); err != nil || r.Count != 3 {
		t.Fatal(r, err)
	}
	if n := numberOf(t, db, "select count(*) from trail"); n != 12 {
		t.Fatalf("%d entries, want those of the removed jobs too", n)
	}
	db.Close()
	migrate(t, db.Schema, 2)
	rows := dump(t, db.cfg.URL)
	if len(rows["audit"]) != 3 || len(rows["job"]) != 1 {
		t.Errorf("%d entries of %d jobs, want 3 of 1", len(rows["audit"]), len(rows["job"]))
	}
	migrate(t, db.Schema, len(migrations()))
	checkTrails(t, open(t, db.cfg.URL), 2)
}

// TestVersionOneIsRemoved: what version 1 wrote is removed as well, whole (K6).
func TestVersionOneIsRemoved(t *testing.T) {
	t.Parallel()
	url, schema := versionOne(t)
	migrate(t, schema, len(migrations()))
	db := open(t, url)
	execute(t, db, "update job set state = 'CANCELED' where state in ('SUBMITTED', 'PENDING', 'RUNNING')")
	p := month()
	p.Before = pawl.Micros(time.Now().AddDate(10, 0, 0)) // whatever the clock of this machine
	if total := retainBy(t, db, p, nil); total != 5 {
		t.Errorf("%d jobs removed, want 5", total)
	}
	for _, table := range []string{"job", "step", "audit", "log", "refusal"} {
		if n := numberOf(t, db, "select count(*) from "+table); n != 0 {
			t.Errorf("%d rows left in %s", n, table)
		}
	}
	anchors, err := db.Anchors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := audit.VerifyAnchors(anchors); f != nil {
		t.Error(f)
	}
}

// TestAHugeJobIsRemovedInSteps: no transaction of retention removes more than so many
// rows of a table, whatever the jobs have; after each the trails that are shown
// verify, and a process that begins anew finds what is left (K6).
func TestAHugeJobIsRemovedInSteps(t *testing.T) {
	t.Parallel()
	for _, anew := range []bool{false, true} {
		db := fresh(t)
		db.retainRecords = 40
		at := past(t, db, 40)
		small := oldJobs(t, db, at, 3, true)
		huge := oldJobs(t, db, at, 1, true)[0]
		do(t, db, &store.Query{Jobs: []rowkey.Job{huge.Key()}}, func(f *store.Facts, d *draft) {
			d.now = at
			for i := range 333 {
				d.newStep(f.Jobs[huge.Key()], i+2, 0)
			}
			for i := range 90 {
				d.NewSignals = append(d.NewSignals, &pawl.Signal{Job: huge.Key(), Seq: int64(i + 1), Name: "go", At: at, Actor: "x"})
			}
		})
		oldJobs(t, db, at, 60, true)
		stays := oldJobs(t, db, past(t, db, 3), 1, true)
		var heads []audit.Hash // of the day, in order
		err := db.Trails(t.Context(), 0, func(tr store.TrailOf) error {
			if tr.Job != stays[0].Key() {
				heads = append(heads, tr.Record.Head)
			}
			return nil
		})
		if err != nil || len(heads) != 2*64+333 {
			t.Fatalf("%d trails, %v", len(heads), err)
		}
		count := func(table string) int { return numberOf(t, db, "select count(*) from "+table) }
		total, steps := int64(0), 0
		for from := (store.Place{}); ; steps++ {
			before := [3]int{count("step"), count("signal"), count("audit")}
			r, err := db.Retain(t.Context(), month(), from)
			if err != nil {
				t.Fatal(err)
			}
			if gone := before[0] - count("step"); gone > db.retainRecords {
				t.Errorf("a step has removed %d rows of steps", gone)
			}
			if gone := before[1] - count("signal"); gone > db.retainRecords {
				t.Errorf("a step has removed %d signals", gone)
			}
			trails := 0
			err = db.Trails(t.Context(), 0, func(tr store.TrailOf) error { trails++; checkTrail(t, tr); return nil })
			jobs := count("job")
			want := 2 * jobs
			if numberOf(t, db, fmt.Sprint("select count(*) from job where id = ", huge.Key())) > 0 {
				want += 333
			}
			if err != nil || trails != want {
				t.Fatalf("after step %d: %d trails, %v, want %d of %d jobs", steps, trails, err, want, jobs)
			}
			total += r.Count
			if from = r.Next; anew && !r.Done && r.Count > 0 {
				from = store.Place{} // it was killed
			}
			if r.Done {
				break
			}
		}
		if left := count("step") + count("signal"); total != int64(len(small))+1+60 || left != 1 || steps < 333/db.retainRecords {
			t.Errorf("%d jobs removed in %d steps, %d rows left; want 64 in more, and 1", total, steps, left)
		}
		anchors, err := db.Anchors(t.Context())
		if err != nil || audit.VerifyAnchors(anchors) != nil || len(anchors) != 1 {
			t.Fatalf("anchors %+v, %v", anchors, err)
		}
		var digest audit.Hash
		for _, head := range heads {
			digest = sha256.Sum256(append(digest[:], head[:]...))
		}
		if anchors[0].Digest != digest || numberOf(t, db, "select count(*) from anchor where pending <> 0") != 0 {
			t.Errorf("the digest is not over the ends of all trails in the order of the export")
		}
	}
}
