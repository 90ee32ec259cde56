package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// TestTheFrontOfAPoolHidesNobody: jobs that wait first for slots of a concurrency key, and
// cannot start, hold up nobody who waits behind them: each time that slots are free and
// they still stand there, others behind them are tried.
func TestTheFrontOfAPoolHidesNobody(t *testing.T) { // J7, K8
	t.Parallel()
	e, _ := interposedEngine(t)
	mint := storetest.NewMint()
	var all []int64
	err := e.store.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		for i := range 35 {
			j := &pawl.Job{ID: mint.ID(f.Now), Workspace: "w", Workflow: "flow", Definition: 7, WorkerCount: 1, Pool: 9, Rank: int64(i)}
			b.AddJob(j)
			b.MoveJob(j, lifecycle.JobValidate)
			all = append(all, j.Key())
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tried := make(map[int64]bool)
	for round := range 4 {
		got, err := e.evaluator.waitIn(t.Context(), 9)
		if err != nil || !slices.Equal(got[:perPool], all[:perPool]) {
			t.Fatalf("%v, %v; want the first ones first", got, err)
		}
		if round == 0 && len(got) != perPool {
			t.Errorf("%d jobs are tried at first; want %d", len(got), perPool)
		}
		for _, k := range got {
			tried[k] = true
		}
	}
	if len(tried) != len(all) {
		t.Errorf("%d of %d jobs were tried", len(tried), len(all))
	}
	e.evaluator.fronts[9] = front{first: 1, tried: store.Ranked{Rank: 20, Job: 1}} // another job stood there
	if got, err := e.evaluator.waitIn(t.Context(), 9); err != nil || len(got) != perPool {
		t.Errorf("%d jobs, %v; want those in front alone, since they are new there", len(got), err)
	}
}

// largeSteps makes a job with so many steps of outputs of so many bytes.
func (e *Engine) largeSteps(t *testing.T, steps, size int) pawl.ID {
	t.Helper()
	mint, id := storetest.NewMint(), pawl.ID{}
	def, err := workflow.Parse("wide.yaml", []byte("name: wide\nsteps: [{id: a, foreach: [1], handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	output := json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
	err = e.store.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		b.Definitions = []*pawl.Definition{{Key: definitionKey(def.Hash()), Hash: def.Hash(), Name: def.Name, Source: def.Canonical(), CreatedAt: f.Now}}
		j := &pawl.Job{ID: mint.ID(f.Now), Workspace: "w", Workflow: def.Name, Definition: definitionKey(def.Hash()), WorkerCount: 1, Open: 1}
		id = j.ID
		b.AddJob(j)
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

// TestAJobIsReadInPages: of a job whose outputs are large all steps are there, and outputs
// until they come to 16 MiB.
func TestAJobIsReadInPages(t *testing.T) { // T8, J4
	t.Parallel()
	e, _ := interposedEngine(t)
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

// TestLogsAreReadInPages: all of a log comes, in its order, in pages; who is content with
// less reads no more.
func TestLogsAreReadInPages(t *testing.T) { // T8
	t.Parallel()
	e, s := interposedEngine(t)
	id := e.submitOne(t)
	ord := pawl.MakeOrd(1, 0)
	var chunks []pawl.Chunk
	for i := range 1200 {
		chunks = append(chunks, pawl.Chunk{StepKey: pawl.StepKey{Job: id.Key(), Ord: ord}, Claim: 1 + i%2, Stream: "stdout", Offset: int64(i), At: int64(i / 7), Data: fmt.Appendf(nil, "%04d", i)})
	}
	if err := s.AppendLogs(t.Context(), chunks); err != nil {
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
