//go:build linux

package workload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// prepareHere prepares a job in this process.
func prepareHere(t testing.TB, job Job) *prepared {
	t.Helper()
	l, err := newLayout(job)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := l.prepare(context.Background(), func(*loadpb.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// runHere returns a run of a job in this process, whose threads have not begun.
func runHere(t testing.TB, job Job) *run {
	t.Helper()
	r, err := newRun(prepareHere(t, job), newClock())
	if err != nil {
		t.Fatal(err)
	}
	r.startAt(0)
	return r
}

// TestNoAllocation: an operation of any kind allocates nothing, paced and verified or not (L9).
func TestNoAllocation(t *testing.T) { // not parallel: AllocsPerRun counts for the process
	for _, kind := range spec.Kinds {
		for _, more := range []string{"", "verify: true, rate: 1e9", "direct: true", "engine: \"null\""} {
			job := newJob(t, "{name: alloc, files: [{name: data, count: 64, size: 64KiB, tree: {width: 2, depth: 1}}], mix: [{operation: "+string(kind)+", access: zipf}], "+more+"}")
			if kind == spec.Create || kind == spec.Mkdir {
				job.Config = "{name: alloc, files: [{name: data, tree: {width: 2, depth: 1}}], mix: [{operation: " + string(kind) + "}], " + more + "}"
			}
			if more == "direct: true" && !kind.HasData() {
				continue
			}
			if !strings.HasPrefix(more, "direct") {
				job.Root = memory(t)
			}
			r := runHere(t, job)
			th := r.threads[0]
			th.now, th.boundary = th.clock.now(), math.MaxInt64
			if n := testing.AllocsPerRun(200, th.step); n > 0 {
				t.Errorf("%s {%s}: %v allocations an operation", kind, more, n)
			}
			if th.run.errors > 0 {
				t.Errorf("%s {%s}: %v", kind, more, th.run.samples)
			}
		}
	}
}

// TestFlatMemory: ten million operations take no more memory than a thousand (L9).
func TestFlatMemory(t *testing.T) { // not parallel: the heap is that of the process
	job := newJob(t, "{name: flat, files: [{name: data, count: 4, size: 64KiB}], mix: [{operation: read, access: zipf}, {operation: stat}, {operation: list}, {operation: create}], engine: \"null\"}")
	r := runHere(t, job)
	th := r.threads[0]
	th.now, th.boundary = th.clock.now(), math.MaxInt64
	heap := func(operations int) uint64 {
		for range operations {
			th.step()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Mallocs
	}
	operations := 10_000_000
	if raced {
		operations /= 10
	}
	before := heap(1000)
	if after := heap(operations); after > before+1000 { // the test's own goroutines do allocate a little
		t.Errorf("%d operations have made %d allocations", operations, after-before)
	}
}

// TestDeterminism: a run of one seed and one thread leaves the same files with the same contents, and of
// another seed others.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	outcome := func(seed int) map[string]string {
		job := newJob(t, fmt.Sprintf(`
name: same
seed: %d
files: [{name: data, count: 20, size: {lognormal: {mean: 20KiB, deviation: 10KiB, min: 1KiB, max: 100KiB}}, tree: {width: 2, depth: 1}}]
mix:
  - {operation: create, weight: 3, block: {uniform: {min: 0B, max: 9000B}}}
  - {operation: delete}
  - {operation: rename}
  - {operation: append, block: 100B}
  - {operation: write, block: 1000B}
  - {operation: mkdir}
count: 300
`, seed))
		p := start(t, job)
		p.prepare()
		p.run(soon())
		if _, _, f := p.finished(); f.GetError() != nil {
			t.Fatal(f.GetError())
		}
		all := map[string]string{}
		for _, name := range tree(t, job.Root) {
			text, _ := os.ReadFile(filepath.Join(job.Root, name)) // a folder has none
			all[name] = fmt.Sprintf("%d %x", len(text), sha256.Sum256(text))
		}
		return all
	}
	first := outcome(1)
	if diff := cmp.Diff(first, outcome(1)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(first, outcome(2)) {
		t.Error("another seed has the same outcome")
	}
}

// TestLateOperation: a thread in a long operation holds the statistics of the others up for one interval
// at most, and what it has counted comes in the next frame: nothing is lost (L4).
func TestLateOperation(t *testing.T) {
	t.Parallel()
	r := runHere(t, newJob(t, "{name: late, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], jobs: 2, interval: 100ms, duration: 1s}"))
	var got []string
	c := newCollector(r, func(f *enginepb.EngineFrame) {
		i := f.GetInterval()
		n := uint64(0)
		for _, o := range i.GetOperations() {
			n += o.GetOperations()
		}
		got = append(got, fmt.Sprintf("%d: %d", i.GetStartNs()/1e6, n))
	})
	hand := func(t *thread, interval, next int64, operations int) {
		<-t.spare // as rotate does
		t.slot.interval = interval
		for range operations {
			cell := t.slot.cell(0, false)
			cell.operations++
			cell.service.Record(1000)
		}
		c.take(handover{t, t.slot, next, t.pacer})
		t.slot = newSlot()
		<-t.spare
		t.spare <- newSlot()
	}
	hand(r.threads[0], 0, 1, 5)
	hand(r.threads[0], 1, 2, 6)
	c.overdue(r.start + 150e6)
	if got != nil {
		t.Errorf("%q before the other thread has passed", got)
	}
	c.overdue(r.start + 201e6)
	hand(r.threads[0], 2, 3, 7)
	hand(r.threads[1], 0, 3, 100)
	r.stopped.Store(true)
	for _, th := range r.threads {
		th.now, th.slot.interval = r.start+300e6, 3
		c.finish(th)
	}
	f := c.finished()
	if diff := cmp.Diff([]string{"0: 5", "100: 106", "200: 7"}, got[:3]); diff != "" {
		t.Error(diff)
	}
	if n, _, _ := total(t, f, "read"); n != 118 {
		t.Errorf("%d operations in all: want 118", n)
	}
}

// TestFillingIsNotTimed: filling a buffer is no part of an operation, and what comes before it, such as the opening,
// is one; operations that a ring is given together begin one after the other.
func TestFillingIsNotTimed(t *testing.T) {
	t.Parallel()
	const long = int64(1e12)
	r := runHere(t, newJob(t, "{name: fill, files: [{name: data, count: 1, size: 1MiB}], mix: [{operation: write, block: 1MiB}]}"))
	th := r.threads[0]
	begun := th.clock.now() - long
	th.begin = begun
	th.data(th.operations[0], 1, 0, 1<<20)
	if took := th.begin - begun; took <= 0 || took >= long {
		t.Errorf("the beginning has moved by %d ns", took)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	th = runHere(t, newJob(t, "{name: fill, engine: uring, depth: 4, files: [{name: data, count: 1, size: 1MiB}], mix: [{operation: read}]}")).threads[0]
	var err error
	if th.flights, err = th.newFlights(); err != nil {
		t.Fatal(err)
	}
	defer th.flights.close()
	th.now, th.turn = th.clock.now()-long, math.MaxInt64
	th.fill()
	for i, f := range th.flights.all {
		if f.begin < th.now+long {
			t.Errorf("operation %d begins %d ns before it is submitted", i, th.now+long-f.begin)
		}
	}
	for len(th.flights.free) < len(th.flights.all) {
		th.drain(th.clock.now() + turnEvery)
	}
}

// TestLongUptime: a rate is kept to the nanosecond on a machine that has run for years.
func TestLongUptime(t *testing.T) {
	t.Parallel()
	p := pacer{period: 1, start: 1 << 58}
	for range 1000 {
		p.next(nil)
	}
	if late := p.at() - p.start; late != 1000 || p.backlog(p.start+1500) != 501 {
		t.Errorf("due after %d ns, backlog %d", late, p.backlog(p.start+1500))
	}
}

// TestLateBacklog: the backlog of an interval is that of its end, and not that of several moments together, when a
// thread hangs for a while.
func TestLateBacklog(t *testing.T) {
	t.Parallel()
	r := runHere(t, newJob(t, "{name: late, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], rate: 1000, interval: 100ms, duration: 1s}"))
	var got []uint64
	c := newCollector(r, func(f *enginepb.EngineFrame) { got = append(got, f.GetInterval().GetBacklog()) })
	th := r.threads[0]
	th.start = r.start
	<-th.spare // as rotate does
	th.slot.backlog = 100
	c.overdue(r.start + 350e6)
	c.take(handover{th, th.slot, 5, th.pacer})
	if diff := cmp.Diff([]uint64{0, 0, 301, 401, 501}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLastBacklog: a thread that hangs from before the last interval to beyond the end leaves the backlog of the end.
func TestLastBacklog(t *testing.T) {
	t.Parallel()
	r := runHere(t, newJob(t, "{name: late, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], rate: 1000, interval: 100ms, duration: 1s}"))
	var got []uint64
	c := newCollector(r, func(f *enginepb.EngineFrame) { got = append(got, f.GetInterval().GetBacklog()) })
	th := r.threads[0]
	th.start, th.boundary, th.now = r.start, r.boundary(0), r.end+1
	th.rotate()
	c.finish(th)
	c.finished()
	if diff := cmp.Diff([]uint64{101, 201, 301, 401, 501, 601, 701, 801, 901, 1001}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLateWarmup: what a thread that hangs over the end of the warm-up has done before is not in the totals.
func TestLateWarmup(t *testing.T) {
	t.Parallel()
	r := runHere(t, newJob(t, "{name: late, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], warmup: 200ms, interval: 100ms, duration: 1s}"))
	c := newCollector(r, func(*enginepb.EngineFrame) {})
	c.overdue(r.start + 350e6)
	th := r.threads[0]
	hand := func(interval, next int64, operations uint64) {
		<-th.spare // as rotate does
		th.slot.interval = interval
		th.slot.cell(0, false).operations = operations
		c.take(handover{th, th.slot, next, th.pacer})
	}
	hand(0, 3, 5)
	hand(3, 4, 7)
	th.slot = newSlot()
	c.finish(th)
	if n, _, _ := total(t, c.finished(), "read"); n != 7 {
		t.Errorf("%d operations in all: want 7", n)
	}
}

// TestSyncFails: a final sync that fails fails the run, whatever the budget; an aborted run does none.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", ", {operation: create, files: made}"} {
		r := runHere(t, newJob(t, "{name: sync, files: [{name: data, count: 1, size: 4KiB}, {name: made}], mix: [{operation: write, files: data}"+more+"], sync: end, errors: {percent: 100}}"))
		closeAll(r.threads[0].opened[0])
		r.threads[0].opened[0][0] = -1
		r.stopped.Store(true)
		if r.syncAtEnd(); r.fault != nil {
			t.Error(r.fault)
		}
		r.stopped.Store(false)
		if r.syncAtEnd(); r.fault == nil || !errors.Is(r.fault, syscall.EBADF) || len(r.samples) != 1 {
			t.Errorf("%v, %q", r.fault, r.samples)
		}
	}
}

// TestPreparingGoesOn: folders are progress, too, and everything together is the total.
func TestPreparingGoesOn(t *testing.T) {
	t.Parallel()
	l, err := newLayout(newJob(t, "{name: progress, files: [{name: data, count: 1, size: 4KiB, tree: {width: 10, depth: 2}}, {name: more}], mix: [{operation: read, files: data}, {operation: create, files: more}]}"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	p, _, err := l.prepare(t.Context(), func(p *loadpb.Progress) { got = append(got, fmt.Sprintf("%d of %d", p.GetDone(), p.GetTotal())) })
	if err != nil {
		t.Fatal(err)
	}
	p.dir.close()
	if diff := cmp.Diff([]string{"114 of 115", "115 of 115"}, got); diff != "" { // as each set begins
		t.Error(diff)
	}
}

// TestHung: a thread that has not begun, or has ended, is none that hangs.
func TestHung(t *testing.T) {
	t.Parallel()
	r := runHere(t, newJob(t, "{name: hung, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], jobs: 2}"))
	c := newCollector(r, func(*enginepb.EngineFrame) {})
	got := []int{r.hung(c)}
	r.threads[1].first.Store(1)
	got = append(got, r.hung(c))
	c.finish(r.threads[1])
	if diff := cmp.Diff([]int{0, 1, 0}, append(got, r.hung(c))); diff != "" {
		t.Error(diff)
	}
}

// TestFailedRename: a file that could not be renamed is found by the name that it has.
func TestFailedRename(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: rename, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: rename}]}")
	r := runHere(t, job)
	th, data := r.threads[0], filepath.Join(job.Root, "load/01RUN/agent-0/data")
	if err := os.Rename(filepath.Join(data, "f0"), filepath.Join(data, "away")); err != nil {
		t.Fatal(err)
	}
	if errno := th.rename(th.operations[0]); errno != syscall.ENOENT {
		t.Error(errno)
	}
	if err := os.Rename(filepath.Join(data, "away"), filepath.Join(data, "f0")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if errno := th.rename(th.operations[0]); errno != 0 {
			t.Error(errno)
		}
	}
}

// TestPlan: a plan has what the preparation creates, and leaves nothing behind.
func TestPlan(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: plan, files: [{name: data, count: 33, size: {uniform: {min: 1B, max: 9000B}}, tree: {width: 3, depth: 2}}], mix: [{operation: read, block: 1B}], warmup: 1s, duration: 2s}")
	plan, faults := Plan(t.Context(), job)
	if len(faults) > 0 || plan.GetRunSeconds() != 3 || plan.GetPrepareSeconds() <= 0 || plan.GetFreeBytes() == 0 || plan.GetFileSystem() == "" {
		t.Error(plan, faults)
	}
	if found := tree(t, job.Root); len(found) > 0 {
		t.Errorf("left: %v", found)
	}
	done := start(t, job).prepare()
	if plan.GetFiles() != done.GetFiles() || plan.GetFolders() != done.GetFolders() || plan.GetBytes() != done.GetBytes() {
		t.Errorf("planned %v, done %v", plan, done)
	}
	job.Config = "{name: plan, mix: []}"
	if _, faults := Plan(t.Context(), job); len(faults) != 1 || faults[0].GetCode() != loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID {
		t.Error(faults)
	}
	job.Config, job.Root = "{name: plan, files: [{name: data}], mix: [{operation: create}]}", "/nonexistent"
	if _, faults := Plan(t.Context(), job); len(faults) != 1 || faults[0].GetSubject() != "/nonexistent" {
		t.Error(faults)
	}
}
