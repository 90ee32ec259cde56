package engine_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/worker"
)

// heapMiB returns how much memory is in use. Tests that call it do not run in parallel.
func heapMiB() int {
	runtime.GC()
	runtime.GC() // the first leaves what was in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}

// TestSmallJobsKeepNoLargeOnes: the memory of a job with long inputs does not depend on the jobs
// that were submitted together with it.
func TestSmallJobsKeepNoLargeOnes(t *testing.T) {
	const batches, each, size = 8, 15, 1_000 << 10
	p := start(t, openFile(t, filepath.Join(t.TempDir(), "pawl.db")), setup{})
	def := define(t, "name: sizes\ninputs: {s: {type: string, required: true}}\nsteps: [{id: a, handler: h}]\n")
	long := json.RawMessage(`{"s":"` + strings.Repeat("x", size) + `"}`)
	before := heapMiB()
	for range batches {
		subs := submissions(def, each)
		for i := range subs {
			if subs[i].Inputs = long; i%8 == 7 {
				subs[i].Inputs = json.RawMessage(`{"s":"y"}`)
			}
		}
		replies, err := p.engine.Submit(t.Context(), subs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replies {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	// The engine remembers at most 32 MiB of jobs.
	if grown := heapMiB() - before; grown > 50 {
		t.Errorf("the heap has grown by %d MiB", grown)
	} else {
		t.Logf("the heap has grown by %d MiB", grown)
	}
}

// TestRunningStepsKeepNoValues: while a step runs, it keeps what it can read, not what its
// expressions have decoded.
func TestRunningStepsKeepNoValues(t *testing.T) {
	const instances = 10
	list := json.RawMessage(`{"n":1,"items":[0` + strings.Repeat(",0", instances-1) + `],"rest":[{}` + strings.Repeat(`,{"a":1}`, 20_000) + `]}`)
	began, g := make(chan struct{}, instances), make(chan struct{})
	p := start(t, openFile(t, filepath.Join(t.TempDir(), "pawl.db")), setup{capacity: instances, handlers: map[string]worker.Handler{
		"list": func(context.Context, *worker.Task) worker.Result { return worker.Result{Output: list} },
		"each": func(_ context.Context, t *worker.Task) worker.Result {
			began <- struct{}{}
			<-g
			return worker.Result{Output: json.RawMessage(strconv.Itoa(len(t.Input())))}
		},
	}})
	before := heapMiB()
	id := p.submit(define(t, "name: fan\nsteps:\n  - {id: list, handler: list}\n"+
		"  - {id: each, handler: each, needs: [list], foreach: \"${{ steps.list.output.items }}\", with: {n: \"${{ steps.list.output.n }}\"}}\n"), "")
	for range instances {
		<-began
	}
	grown := heapMiB() - before
	close(g)
	p.wait(id)
	if grown > 20 {
		t.Errorf("the heap has grown by %d MiB while %d instances run", grown, instances)
	} else {
		t.Logf("the heap has grown by %d MiB", grown)
	}
}
