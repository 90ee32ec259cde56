package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A base is a database in memory and a reader of it.
type base struct {
	*Reader
	db   store.Store
	mint *storetest.Mint
}

func newBase(t *testing.T) *base {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &base{New(Config{Source: s, Definitions: definitions.New(s), Limits: quota.NewCache(s), Silence: health.Silence, Clock: time.Now}), s, storetest.NewMint()}
}

// largeSteps makes a job with that many steps, with outputs of that many bytes.
func (e *base) largeSteps(t *testing.T, steps, size int) pawl.ID {
	t.Helper()
	var id pawl.ID
	def, err := workflow.Parse("wide.yaml", []byte("name: wide\nsteps: [{id: a, foreach: [1], handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	output := json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
	err = e.db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		b.Definitions = []*pawl.Definition{{Key: definitions.KeyOf(def.Hash()), Hash: def.Hash(), Name: def.Name, Source: def.Canonical(), CreatedAt: f.Now}}
		j := &pawl.Job{ID: e.mint.ID(f.Now), Workspace: "w", Workflow: def.Name, Definition: definitions.KeyOf(def.Hash()), WorkerCount: 1, Open: 1}
		id = j.ID
		b.AddJob(j)
		b.MoveJob(j, lifecycle.JobValidate)
		for i := range steps {
			b.AddStep(j, &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, i)}, Output: output})
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestAJobIsReadInPages: a job with large outputs is read with all its steps, and with
// outputs up to a total of 16 MiB.
func TestAJobIsReadInPages(t *testing.T) { // T8, J4
	t.Parallel()
	e := newBase(t)
	const size = 1 << 19
	v, err := e.Job(t.Context(), e.largeSteps(t, 50, size))
	if err != nil || len(v.Steps) != 50 {
		t.Fatalf("%v; want 50 steps", err)
	}
	whole := 0
	for i, s := range v.Steps {
		if s.Ord != pawl.MakeOrd(1, i) || s.Omitted == (len(s.Output) > size) {
			t.Errorf("step %d: %s, %d bytes of output, omitted %v", i, s.Key, len(s.Output), s.Omitted)
		}
		if !s.Omitted {
			whole++
		}
	}
	if most := maxListBytes/size + 2; whole > most || whole < maxListBytes/size-1 {
		t.Errorf("%d steps have their outputs; want about %d", whole, most)
	}
}

// TestLogsAreReadInPages: a whole log is read in order and in pages; a caller that stops
// early reads no more.
func TestLogsAreReadInPages(t *testing.T) { // T8
	t.Parallel()
	e := newBase(t)
	id := e.largeSteps(t, 1, 0)
	ord := pawl.MakeOrd(1, 0)
	var chunks []pawl.Chunk
	for i := range 1200 {
		chunks = append(chunks, pawl.Chunk{StepKey: pawl.StepKey{Job: id.JobKey(), Ord: ord}, Claim: 1 + i%2, Stream: "stdout", Offset: int64(i), At: int64(i / 7), Data: fmt.Appendf(nil, "%04d", i)})
	}
	if err := e.db.AppendLogs(t.Context(), chunks); err != nil {
		t.Fatal(err)
	}
	var got []string
	read := func(l pawl.LogLine) error { got = append(got, fmt.Sprint(l.Claim, " ", l.Text)); return nil }
	for _, step := range []string{"", "a"} {
		got = nil
		if err := e.Logs(t.Context(), id, step, read); err != nil || len(got) != len(chunks) || !slices.IsSorted(got) {
			t.Errorf("step %q: %d pieces, %v; want %d in order", step, len(got), err, len(chunks))
		}
	}
	enough := errors.New("enough")
	if err := e.Logs(context.Background(), id, "a", func(pawl.LogLine) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v; want the error of who reads", err)
	}
}

// longHistory pauses and resumes a job that many times, with reasons of that many bytes,
// and has as many facts about its step refused.
func (e *base) longHistory(t *testing.T, id pawl.ID, times, size int) {
	t.Helper()
	reason := strings.Repeat("r", size)
	err := e.db.Do(t.Context(), &store.Query{Jobs: []rowkey.Job{id.JobKey()}}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		b.Reason = func() string { return reason }
		j := f.Jobs[id.JobKey()]
		for range times {
			b.MoveJob(j, lifecycle.JobPause, lifecycle.JobResume)
			b.Refusals = append(b.Refusals, pawl.Refusal{StepKey: pawl.StepKey{Job: id.JobKey(), Ord: pawl.MakeOrd(1, 0)}, At: f.Now, Event: lifecycle.StepSuccess, Why: "late"})
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestALongHistoryIsReadInPages: all of it is read in order, with the refused facts; a
// caller that stops early reads no more. The views of the job, as it is and as it was, have
// the last of its own moves, and state how many they omit.
func TestALongHistoryIsReadInPages(t *testing.T) { // T8, K6
	t.Parallel()
	e := newBase(t)
	const times = 1200
	id := e.largeSteps(t, 1, 0)
	e.longHistory(t, id, times, 2*store.TrailPageBytes/times)
	own, late, from := 0, 0, machine.State("")
	err := e.History(t.Context(), id, func(m pawl.Transition) error {
		switch {
		case m.Refused:
			late++
		case m.Step == "":
			if own++; m.Sequence != int64(own) || (m.From == nil) != (own == 1) || m.From != nil && *m.From != from || m.Entity != id.Public(pawl.JobPrefix) {
				t.Errorf("move %d of the job: %+v", own, m)
			}
			from = m.To
		}
		return nil
	})
	if err != nil || own < 2*times || late != times {
		t.Errorf("%d moves of the job, %d refused, %v", own, late, err)
	}
	enough, seen := errors.New("enough"), 0
	if err := e.History(t.Context(), id, func(pawl.Transition) error { seen++; return enough }); !errors.Is(err, enough) || seen != 1 {
		t.Errorf("%v after %d moves; want the error of who reads", err, seen)
	}
	for _, at := range []int{0, own - 3} {
		v, err := e.Job(t.Context(), id)
		n := own
		if at > 0 {
			n = at
			v, err = e.Past(t.Context(), id, pawl.Moment{Sequence: int64(at)})
		}
		if err != nil {
			t.Fatal(err)
		}
		if last := v.StateHistory[len(v.StateHistory)-1]; len(v.StateHistory) != maxMoves || v.HistoryOmitted != int64(n-maxMoves) || last.Sequence != int64(n) {
			t.Errorf("the view has %d moves up to %d and leaves %d out; want the last %d of %d", len(v.StateHistory), last.Sequence, v.HistoryOmitted, maxMoves, n)
		}
	}
}

// TestThePastIsReadInPages: a job with large outputs is rebuilt with all its steps, and
// with outputs up to a total of 16 MiB.
func TestThePastIsReadInPages(t *testing.T) { // T8, K6
	t.Parallel()
	e := newBase(t)
	const size = 1 << 19
	id := e.largeSteps(t, 50, size)
	now, err := e.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	was, err := e.Past(t.Context(), id, pawl.Moment{Time: now.UpdatedAt})
	if err != nil || len(was.Steps) != len(now.Steps) {
		t.Fatalf("%v; want 50 steps", err)
	}
	for i, s := range was.Steps {
		if s.Ord != now.Steps[i].Ord || s.Omitted != now.Steps[i].Omitted {
			t.Errorf("step %d: %s, omitted %v; want it as it is now", i, s.Key, s.Omitted)
		}
	}
	if !was.Steps[49].Omitted {
		t.Error("the last step has its output")
	}
}
