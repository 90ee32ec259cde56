package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/worker"
)

func openFile(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestManyDefinitionsAtOnce: jobs of more definitions than the engine remembers are still
// taken while a worker is free for them.
func TestManyDefinitionsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, openFile(t, filepath.Join(t.TempDir(), "pawl.db")), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 10})
	p.wait(p.submit(define(t, "name: first\nsteps: [{id: a, handler: h}]"), ""))
	var subs []pawl.Submission
	for i := range 1001 {
		def := define(t, fmt.Sprintf("name: d%d\nsteps: [{id: a, handler: h}]", i))
		subs = append(subs, pawl.Submission{Definition: def.Canonical(), Actor: "test"})
	}
	answers, err := p.engine.Submit(t.Context(), subs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Err != nil {
			t.Fatalf("job %d: %v", i, a.Err)
		}
	}
}

// TestAFreeKeyIsNotBehindABusyOne: a job whose concurrency key is free begins although
// thousands of earlier jobs wait for their keys, and submitting it evaluates nothing (T10).
func TestAFreeKeyIsNotBehindABusyOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	over := make(chan struct{})
	work := func(ctx context.Context, k *worker.Task) worker.Result {
		if strings.HasPrefix(k.Workflow, "long") {
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
		return worker.Result{}
	}
	p := start(t, openFile(t, path), setup{handlers: map[string]worker.Handler{"h": work}, capacity: 10})
	defer close(over)
	long := define(t, "name: long\nconcurrency: {key: x}\nsteps: [{id: a, handler: h}]")
	for range 12 {
		p.submitMany(long, 250)
	}
	quick := define(t, "name: quick\nconcurrency: {key: y}\nsteps: [{id: a, handler: h}]")
	other := engine.New(engine.Config{Store: openFile(t, path), Passive: true})
	defer other.Close()
	answers, err := other.Submit(t.Context(), pawl.Submission{Definition: quick.Canonical(), Actor: "test"})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	if _, err := other.Wait(ctx, answers[0].ID); err != nil {
		t.Error(err)
	}
}
