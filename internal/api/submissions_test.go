package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/workflow"
)

const oneStep = "name: one\nsteps: [{id: a, run: x}]\n"

// TestTextsAreSmall: texts that were submitted take no more memory than they count, and no more than their
// limit. It runs alone, as it reads the size of the heap.
func TestTextsAreSmall(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	kept, before := new(texts), heap()
	for i := range 20_000 {
		if _, err := kept.parsed(fmt.Sprintf("name: w%d\nsteps: [{id: a, run: x}]\n", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > kept.bytes || len(kept.of) != 20_000 {
		t.Errorf("%d texts count %d bytes, and take %d", len(kept.of), kept.bytes, grown)
	}
	for i := range 100 {
		kept.keep(textKey{hash: [32]byte{byte(i)}}, make([]byte, 1<<20))
		if grown := heap() - before; grown > maxTexts+1<<20 {
			t.Fatalf("texts take %d bytes", grown)
		}
	}
	runtime.KeepAlive(kept)
}

// TestTextsAtOnce: a text that many submit at once counts once.
func TestTextsAtOnce(t *testing.T) {
	t.Parallel()
	kept := new(texts)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			canonical, err := kept.parsed(oneStep, nil)
			if def, loaded := workflow.Load(canonical); err != nil || loaded != nil || def.Name != "one" {
				t.Errorf("%s %v %v", canonical, err, loaded)
			}
		})
	}
	all.Wait()
	for _, canonical := range kept.of {
		if len(kept.of) != 1 || kept.bytes != len(canonical)+textRoom {
			t.Errorf("%d texts count %d bytes", len(kept.of), kept.bytes)
		}
		kept.keep(textKey{true, [32]byte{}}, canonical)
		kept.keep(textKey{true, [32]byte{}}, canonical)
		if kept.bytes != 2*(len(canonical)+textRoom) {
			t.Errorf("%d texts count %d bytes", len(kept.of), kept.bytes)
		}
		break
	}
}

// A renewed source registers another version of a workflow after each look, and settles of a batch the first
// job only.
type renewed struct {
	access.Source
	def   *workflow.Definition
	looks int
	made  []pawl.Submission
	tries int // how often a commit was tried
}

func (r *renewed) Lookup(context.Context, pawl.WorkflowName, int) (*pawl.Version, *workflow.Definition, error) {
	r.looks++
	return &pawl.Version{Version: r.looks}, r.def, nil
}

func (r *renewed) SubmitOnce(_ context.Context, b *link.Batch, subs []pawl.Submission, done []pawl.Submitted) (text []byte, again bool, err error) {
	r.made = append(r.made, subs[0])
	for i := range done[1:] {
		done[1+i].Err = &pawl.Error{Kind: pawl.Unavailable, Message: "later"}
	}
	done[1].Err = errors.New("broken")
	for range r.tries {
		text = b.Response(done)
	}
	return text, false, nil
}

func (r *renewed) Submit(_ context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	r.made = append(r.made, subs...)
	return make([]pawl.Submitted, len(subs)), nil
}

// TestOneVersionForARequest: all jobs of a request that name the same workflow are of the same version, those
// too that its first commit has not settled; a failure is logged once, however often a commit is tried.
func TestOneVersionForARequest(t *testing.T) {
	t.Parallel()
	def, err := workflow.Parse("test.yaml", []byte(oneStep))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r := &renewed{def: def, tries: 3}
	s := &Service{Config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, Engine: access.Scope(r)}
	in := &batchRequest{Body: exchange.Batch{RequestID: "k", Jobs: slices.Repeat([]exchange.Submission{{Workflow: "one"}}, 4)}}
	out, err := s.submitJobs(access.With(t.Context(), &access.Principal{Workspaces: []string{pawl.DefaultWorkspace}}), in)
	if err != nil || len(out.Body.Items) != 4 || len(r.made) != 4 {
		t.Fatalf("%+v %v, %d jobs", out, err, len(r.made))
	}
	for i, sub := range r.made {
		if sub.Version != 1 {
			t.Errorf("job %d is of version %d", i, sub.Version)
		}
	}
	if n := strings.Count(log.String(), "broken"); n != 1 {
		t.Errorf("the failure is logged %d times: %s", n, log.String())
	}
}
