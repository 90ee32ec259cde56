package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// listening returns what a handle hears of messages.
func listening(t *testing.T, db *DB) <-chan store.Hint {
	t.Helper()
	heard := make(chan store.Hint, 100) // more than a test sends
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- db.Listen(ctx, func(h store.Hint) {
			if h.Topic == store.TopicMessages {
				heard <- h
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the handle hears hints", db.Hears)
	return heard
}

func next(t *testing.T, heard <-chan store.Hint) store.Hint {
	t.Helper()
	select {
	case h := <-heard:
		return h
	case <-time.After(30 * time.Second):
		t.Fatal("no message came")
		return store.Hint{}
	}
}

// taken returns a new job with one step that a worker holds, as a transaction makes them.
func (d *draft) taken(worker rowkey.Worker) store.Taken {
	j := d.newJob(1)
	j.State, j.Inputs, j.Metadata = lifecycle.JobRunning, []byte(`{"n":1}`), []byte(`{}`)
	s := d.newStep(j, 1, 1)
	s.State, s.Worker, s.Claims, s.Attempts = lifecycle.StepInProgress, worker, 1, 1
	return store.Taken{Job: j, Step: s}
}

// TestMessages: a message comes to its receiver alone, with the records as they were sent. One with
// much in it comes in parts that say how much came before, and what is too long for any is left out.
func TestMessages(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	sender, third := open(t, db.cfg.URL), open(t, db.cfg.URL)
	heard, overheard := listening(t, db), listening(t, third)
	m := &store.Message{Kind: store.MessageTake, Worker: -7, Loan: 1 << 63, Count: 5}
	do(t, sender, &store.Query{}, func(_ *store.Facts, d *draft) {
		for i := range 200 {
			m.Taken = append(m.Taken, d.taken(7))
			if i%100 == 99 {
				m.Taken[i].Job.Inputs = []byte(`"` + strings.Repeat("x", 9000) + `"`)
			}
		}
	})
	sender.Send(db.handle, m)
	sender.Send(db.handle, &store.Message{Kind: store.MessageEnd, Worker: 1, Loan: 2, Count: 3})
	parts, missing := 0, []int{}
	for at := m.Count; at < m.Count+len(m.Taken); parts++ {
		part := next(t, heard).Message
		if part.Kind != store.MessageTake {
			t.Fatalf("%d came, and then %+v", at-m.Count, part)
		}
		if part.From != sender.handle || part.Worker != m.Worker || part.Loan != m.Loan {
			t.Fatalf("came as %+v", part)
		}
		for ; at < part.Count; at++ {
			missing = append(missing, at-m.Count)
		}
		for _, got := range part.Taken {
			if diff := cmp.Diff(m.Taken[at-m.Count], got); diff != "" {
				t.Fatal(diff)
			}
			at++
		}
		if at == m.Count+len(m.Taken)-1 {
			break // the last one is too long
		}
	}
	if diff := cmp.Diff([]int{99}, missing); diff != "" || parts < 3 {
		t.Errorf("in %d parts the wrong ones were missing: %s", parts, diff)
	}
	end := next(t, heard).Message
	for end.Kind == store.MessageTake && len(end.Taken) == 0 {
		end = next(t, heard).Message
	}
	if end.Kind != store.MessageEnd || end.Count != 3 {
		t.Errorf("at the end came %+v", end)
	}
	select {
	case h := <-overheard:
		t.Errorf("another process heard %+v", h.Message)
	default:
	}
}

// TestWhatIsTakenIsKnown: a process reports what another one has claimed for its worker as if it had
// made the claim itself: in one round trip, also what continues the job; and it deletes the row that
// says that the job runs. The other one no longer watches it.
func TestWhatIsTakenIsKnown(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	sender := open(t, db.cfg.URL)
	heard := listening(t, db)
	var taken store.Taken
	var behind *pawl.Step
	do(t, sender, &store.Query{}, func(_ *store.Facts, d *draft) {
		taken = d.taken(7)
		behind = d.newStep(taken.Job, 2, 1)
		behind.Unmet = 1
	})
	do(t, db, &store.Query{}, func(*store.Facts, *draft) {}) // it knows the clock
	sender.Send(db.handle, &store.Message{Kind: store.MessageTake, Worker: 7, Loan: 1, Taken: []store.Taken{taken}})
	next(t, heard)
	key := taken.Job.Key()
	q := &store.Query{Jobs: []rowkey.Job{key}, Steps: []pawl.StepKey{taken.Step.StepKey, behind.StepKey}, Waiting: []store.JobLimit{{Job: key, Limit: 10}}}
	r := db.cache.find(q, &db.rooms)
	if r == nil || len(r.Steps) != 2 || r.Jobs[key].WorkerCount != 1 {
		t.Fatal("its report would read first")
	}
	db.rooms.put(r.room)
	decided := 0
	do(t, db, q, func(f *store.Facts, d *draft) {
		decided++
		j := f.Jobs[key]
		d.moveStep(j.ID, f.Steps[taken.Step.StepKey], lifecycle.StepSuccess, lifecycle.StepComplete)
		d.moveStep(j.ID, f.Steps[behind.StepKey], lifecycle.StepSkip, lifecycle.StepSkipped)
		d.moveJob(j, lifecycle.JobCompleted, lifecycle.JobSuccess)
	})
	if decided != 1 {
		t.Errorf("the report was decided %d times: what came was outdated", decided)
	}
	sender.running.mu.Lock()
	if len(sender.running.of) != 0 {
		t.Errorf("the sender still watches %v", sender.running.of)
	}
	sender.running.mu.Unlock()
	if gone := db.running.take(); len(gone) != 1 {
		t.Errorf("rows %v are to be deleted, want one", gone)
	}
}

// TestWhatHasChangedIsNotPassedOn: if another transaction of the sender has changed the job since, the
// receiver knows no version of it, and reads.
func TestWhatHasChangedIsNotPassedOn(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var taken store.Taken
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { taken = d.taken(7) })
	given := store.Taken{Job: new(pawl.Job), Step: new(pawl.Step)}
	*given.Job, *given.Step = *taken.Job, *taken.Step
	given.Job.Children = !given.Job.Children
	if v, _ := db.cache.pass(&given); v != 0 {
		t.Errorf("the rows have version %d, though the job has changed", v)
	}
	if v, _ := db.cache.pass(&taken); v != 0 {
		t.Error("what was passed on is still known")
	}
}

// TestAHintAsksOnce: the next hint of work says how many of its steps lent slots could have taken, and
// the one after it does not, nor does that of a process that hears nothing.
func TestAHintAsksOnce(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	sender := open(t, db.cfg.URL)
	heard := hinted(t, db)
	wake := func() store.Hint {
		sender.Ask(3)
		sender.Ask(4)
		sender.Wake(9, store.TopicWork)
		return next(t, heard)
	}
	if h := wake(); h.From != "" || h.Asks != 0 || h.Steps != 9 {
		t.Errorf("who hears nothing sends %+v", h)
	}
	listening(t, sender)
	if h := wake(); h.From != sender.handle || h.Asks != 7 {
		t.Errorf("came as %+v", h)
	}
	sender.Wake(1, store.TopicWork)
	if h := next(t, heard); h.From != "" || h.Steps != 1 {
		t.Errorf("then came %+v", h)
	}
}

// TestARowOfWhatRunsIsPassedOn: the process that sees the last job end deletes the row that another
// one has made, and not before all of its jobs have ended.
func TestARowOfWhatRunsIsPassedOn(t *testing.T) {
	t.Parallel()
	var a, b runningRows
	row := runningRow{id: 5, jobs: []rowkey.Job{1, 2}, left: 2}
	a.of = map[rowkey.Job][]*runningRow{1: {&row}, 2: {&row}}
	first, total := a.pass(1)
	second, _ := a.pass(2)
	b.adopt(first, total, 1)
	b.end(1)
	if gone := b.take(); len(gone) != 0 {
		t.Fatalf("%v is to be deleted while a job of it runs", gone)
	}
	b.adopt(second, total, 2)
	b.end(2)
	if gone := b.take(); len(gone) != 1 || gone[0] != 5 {
		t.Errorf("%v is to be deleted, want the row", gone)
	}
	if a.end(1); len(a.take()) != 0 {
		t.Error("who has passed it on deletes it, too")
	}
	b.adopt(9, 0, 3)
	if b.end(3); len(b.take()) != 0 {
		t.Error("a row that does not exist is to be deleted")
	}
}
