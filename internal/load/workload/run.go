//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// grace is how long a run that is stopped waits for operations that do not return.
const grace = 700 * time.Millisecond

// A run is the threads of one run and what they share.
type run struct {
	*prepared
	clock      clock
	start, end int64 // of CLOCK_MONOTONIC; the end is far away where a count ends the run
	warm       int64 // the number of the first interval after the warm-up
	threads    []*thread
	stopped    atomic.Bool
	operations atomic.Uint64 // about: each thread adds what it has done now and then
	handed     chan handover
	gate       chan struct{} // of the threads that reach an object store: closed at the start

	mu      sync.Mutex
	errors  uint64
	samples []string
	fault   *fault
}

// newRun makes the threads of a run, which has no start yet.
func newRun(p *prepared, c clock) (*run, error) {
	t := p.test
	r := &run{prepared: p, clock: c, handed: make(chan handover, t.Jobs), gate: make(chan struct{})} // a thread has one on its way at most
	r.warm = int64((t.Warmup + t.Interval - 1) / t.Interval)
	operations, weights := p.operations()
	shared, err := &opened{}, error(nil)
	if p.store == nil {
		shared, err = r.openAll()
	}
	if err != nil {
		return nil, err
	}
	for i := range t.Jobs {
		th, err := r.newThread(i, shared)
		if err != nil {
			return nil, err
		}
		th.operations, th.weights = operations, weights
		r.threads = append(r.threads, th)
	}
	return r, r.connect()
}

// startAt sets when the run starts: at once if the time has passed.
func (r *run) startAt(start int64) {
	r.start, r.end = max(start, r.clock.now()), math.MaxInt64
	if r.test.Duration > 0 {
		r.end = r.start + int64(r.test.Warmup+r.test.Duration)
	}
}

// newThread makes a thread, whose buffers are touched and whose files are open.
func (r *run) newThread(i int, shared *opened) (*thread, error) {
	t := r.test
	th := &thread{run: r, index: i, clock: r.clock, rng: random(mix(t.Seed, uint64(r.job.AgentIndex), uint64(i), 2))}
	th.fresh = th.rng.next()
	th.null, th.verifies = t.Engine == spec.Null, t.Verify
	th.pacer = r.pace(i, &th.rng)
	th.limits = r.limits()
	th.slot, th.spare = newSlot(), make(chan *slot, 1)
	th.spare <- newSlot()
	th.left = math.MaxUint64
	if r.warm == 0 {
		th.left = r.share(i)
	}
	th.layout, th.direct, th.leaves = r.layout, r.align, shared.leaves
	switch t.Sync {
	case spec.SyncEach:
		th.syncCall = unix.SYS_FSYNC
	case spec.SyncData:
		th.syncCall = unix.SYS_FDATASYNC
	case spec.SyncOpen:
		th.dsync = unix.O_DSYNC
	}
	th.pools, th.cursors = make([]pool, len(r.sets)), make([]cursor, len(t.Mix))
	for at, s := range r.sets {
		first, stride := r.place(i)
		if s.changing && first < s.Count {
			th.pools[at].prepared = (s.Count-first-1)/stride + 1
			th.pools[at].tail = th.pools[at].prepared
		}
	}
	if th.null {
		return th, nil
	}
	if r.store != nil {
		return th, th.equipObjects()
	}
	return th, th.equip(shared)
}

// equip opens the files of a thread and fills its buffers.
func (t *thread) equip(shared *opened) (err error) {
	t.name, t.other = make([]byte, 0, 8192), make([]byte, 0, 8192)
	t.opened, t.appends = make([][]int32, len(t.layout.sets)), make([][]int32, len(t.layout.sets))
	made := map[int]*content{}
	for at, s := range t.layout.sets {
		_, uses := t.run.uses(s)
		c := made[s.Content.Compressible]
		if c == nil {
			if c, err = newContent(mix(t.layout.test.Seed), s.Content.Compressible, shared.longest); err != nil {
				return err
			}
			made[s.Content.Compressible] = c
		}
		t.contents = append(t.contents, c)
		if !shared.cached[at] {
			continue
		}
		flags := unix.O_RDONLY
		if uses[spec.Write] {
			flags = unix.O_RDWR | t.dsync
		}
		if uses[spec.Read] || uses[spec.Write] || uses[spec.Fsync] {
			if t.opened[at], err = t.openSet(s, flags|t.directFlag()); err != nil {
				return err
			}
		}
		if uses[spec.Append] {
			if t.appends[at], err = t.openSet(s, unix.O_WRONLY|unix.O_APPEND|t.dsync|t.directFlag()); err != nil {
				return err
			}
		}
	}
	return t.allocate(shared.longest)
}

// allocate allocates the buffers of the thread for blocks of a size, in whole pages: all in one piece, as huge pages are
// larger than most blocks.
func (t *thread) allocate(block int) (err error) {
	rides := 0
	if t.layout.test.Engine == spec.Uring {
		rides = t.layout.test.Depth
	}
	if t.memory, err = alignedBuffer((1+rides)*block, block); err != nil {
		return err
	}
	t.buffer = t.memory[:block:block]
	for i := range rides {
		t.rides = append(t.rides, t.memory[(1+i)*block:(2+i)*block:(2+i)*block])
	}
	return nil
}

func (t *thread) openSet(s *set, flags int) ([]int32, error) {
	fds := make([]int32, s.Count)
	for file := range s.Count {
		name := s.path(file)
		fd, err := openBeneath(t.run.dir.fd, name, flags, 0)
		if err == unix.EINVAL && t.direct > 0 {
			return nil, terrain{name: "of " + name}.direct()
		}
		if err != nil {
			return nil, pathFault("open", t.run.dir.name+"/"+name, err)
		}
		fds[file] = int32(fd)
	}
	return fds, nil
}

// opened is what threads share.
type opened struct {
	leaves  [][]int32
	cached  []bool // sets whose files each thread opens before the start
	longest int    // block, in whole pages
}

const (
	maxLeaves = 4096 // folders of a set that stay open
	maxOpen   = 16384
)

// openAll opens the folders in which operations find files, and decides which files threads keep open.
func (r *run) openAll() (*opened, error) {
	o := &opened{make([][]int32, len(r.sets)), make([]bool, len(r.sets)), r.longest()}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	free := min(limit.Cur/2, maxOpen)
	for at, s := range r.sets {
		if s.leaves <= min(maxLeaves, free/4) {
			free -= s.leaves
			o.leaves[at] = make([]int32, s.leaves)
			for leaf := range s.leaves {
				fd, err := openBeneath(r.dir.fd, string(s.appendLeaf(nil, leaf)), unix.O_PATH|unix.O_DIRECTORY, 0)
				if err != nil {
					return nil, pathFault("open", r.dir.name, err)
				}
				o.leaves[at][leaf] = int32(fd)
			}
		}
		if n := 2 * s.Count * uint64(r.test.Jobs); !s.changing && s.Count <= maxOpen && n <= free {
			free -= n
			o.cached[at] = true
		}
	}
	return o, nil
}

// limits returns a thread's share of what the run may still make.
func (r *run) limits() limits {
	n := r.wanted
	share := func(limit, used uint64) int64 {
		if limit == 0 {
			return math.MaxInt64 / 2 // what is deleted comes back
		}
		return int64((limit - used) / uint64(r.test.Jobs))
	}
	return limits{bytes: share(r.job.LimitBytes, n.bytes), files: share(r.job.LimitFiles, n.files+n.folders)}
}

// place returns the number of a thread among all that use the same files, and how many these are.
func (r *run) place(thread int) (first, stride uint64) {
	index, count := r.part()
	jobs := uint64(r.test.Jobs)
	return index*jobs + uint64(thread), count * jobs
}

// boundary returns the end of an interval. The warm-up ends one.
func (r *run) boundary(interval int64) int64 {
	t := r.test
	if interval < r.warm {
		return r.start + min((interval+1)*int64(t.Interval), int64(t.Warmup))
	}
	return min(r.start+int64(t.Warmup)+(interval-r.warm+1)*int64(t.Interval), r.end)
}

// intervalAt returns the number of the interval that a time is in; what ends after the end is in the last one.
func (r *run) intervalAt(at int64) int64 {
	t := r.test
	since := min(at, r.end-1) - r.start
	if since < int64(t.Warmup) {
		return since / int64(t.Interval)
	}
	return r.warm + (since-int64(t.Warmup))/int64(t.Interval)
}

// fail counts a failed operation, and ends the run if it is fatal or the budget is spent.
func (r *run) fail(class int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors++
	if len(r.samples) < maxErrors {
		r.samples = append(r.samples, err.Error())
	}
	if r.fault != nil || !fatal(class) && r.affords() {
		return
	}
	code := loadpb.ErrorCode_ERROR_CODE_IO
	switch class {
	case noSpace:
		code = loadpb.ErrorCode_ERROR_CODE_NO_SPACE
	case readOnly, permission:
		code = loadpb.ErrorCode_ERROR_CODE_PERMISSION
	case verification:
		code = loadpb.ErrorCode_ERROR_CODE_VERIFICATION
	}
	if !fatal(class) && r.errors > 1 {
		err = fmt.Errorf("%d operations have failed, which is more than errors allows; the last one: %w", r.errors, err)
	}
	r.fault = &fault{code: code, subject: "mix", err: err}
	r.stopped.Store(true)
}

// errSignal is why a run has ended early that had no error. It is none where the agent has asked for it.
var errSignal = &fault{code: loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, err: errors.New("the engine was ended by a signal before the end of the load")}

// interrupt ends the run.
func (r *run) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		r.fault = errSignal
	}
	r.stopped.Store(true)
}

// affords reports whether the budget covers the errors so far.
func (r *run) affords() bool {
	b := r.test.Errors
	if r.errors <= b.Count {
		return true
	}
	n := max(r.operations.Load(), r.errors)
	return b.Percent > 0 && (n < 100 || float64(r.errors) <= float64(n)*b.Percent/100)
}

// do runs the threads, emits what they have done, and returns when all are done, or soon after ctx has ended.
func (r *run) do(ctx context.Context, emit func(*enginepb.EngineFrame)) *enginepb.Finished {
	runtime.GOMAXPROCS(r.mostBlocked() + 2)
	begun, stopBegun := r.announce(emit)
	defer stopBegun()
	col := newCollector(r, func(f *enginepb.EngineFrame) {
		if f.GetInterval() != nil {
			begun()
		}
		emit(f)
	})
	if r.store != nil {
		go r.openGate()
	}
	done := make(chan *thread, len(r.threads))
	for _, t := range r.threads {
		go func() {
			t.loop(r.start)
			done <- t
		}()
	}
	left, interrupted := len(r.threads), ctx.Done()
	var late <-chan time.Time
	ticker := time.NewTicker(max(min(r.test.Interval/4, 50*time.Millisecond), time.Millisecond))
	defer ticker.Stop()
	for left > 0 {
		select {
		case h := <-r.handed:
			col.take(h)
		case t := <-done:
			left--
			col.finish(t)
		case <-ticker.C:
			col.overdue(r.clock.now())
			if r.stopped.Load() && late == nil {
				late = time.After(grace)
			}
		case <-interrupted:
			r.interrupt()
			interrupted, late = nil, time.After(grace)
		case <-late:
			if n := r.hung(col); n > 0 {
				fmt.Fprintf(os.Stderr, "%d threads are in a system call that does not return\n", n)
			}
			return col.finished()
		}
	}
	r.syncAtEnd()
	defer r.release()
	return col.finished()
}

// hung returns how many threads have begun and not ended.
func (r *run) hung(c *collector) (n int) {
	for i, t := range r.threads {
		if t.first.Load() != 0 && c.passed[i] != math.MaxInt64 {
			n++
		}
	}
	return n
}

// release closes the files of the threads, which have ended, and gives their buffers back.
func (r *run) release() {
	if r.store != nil {
		r.disconnect()
		return
	}
	for _, t := range r.threads {
		for _, fds := range append(t.opened, t.appends...) {
			closeAll(fds)
		}
		for i, c := range t.contents {
			if !slices.Contains(t.contents[:i], c) { // sets may have one in common
				c.free()
			}
		}
		freeBuffer(t.memory)
	}
	for _, fds := range r.threads[0].leaves {
		closeAll(fds)
	}
	r.dir.close()
}

func closeAll(fds []int32) {
	for _, fd := range fds {
		closeFD(int(fd))
	}
}

// announce reports when all threads have begun: soon, when now is called first, or when it is
// stopped. A thread that has not begun by then does so later than that. After that it does nothing: what runs beside the
// threads takes the processor from them, also in the middle of an operation that holds a lock of the system.
func (r *run) announce(emit func(*enginepb.EngineFrame)) (now, stop func()) {
	now = sync.OnceFunc(func() {
		s, _ := r.begun()
		emit(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Started{Started: s}})
	})
	done := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		for wait := time.Duration(r.start - r.clock.now()); r.hasBegun() < len(r.threads); wait = lookForBegin {
			select {
			case <-time.After(max(wait, lookForBegin)):
			case <-done:
				return
			}
		}
		now()
	})
	return now, func() {
		close(done)
		over.Wait()
		if r.hasBegun() > 0 { // the run may have ended before its start
			now()
		}
	}
}

// lookForBegin is how often it is looked whether all threads have begun.
const lookForBegin = time.Millisecond

// hasBegun returns how many threads have begun.
func (r *run) hasBegun() int {
	_, n := r.begun()
	return n
}

// begun returns when the threads have begun, and how many have.
func (r *run) begun() (s *loadpb.Started, n int) {
	at := r.clock.now()
	s = &loadpb.Started{IntendedNs: r.start, FirstNs: math.MaxInt64, Threads: uint32(len(r.threads))}
	for _, t := range r.threads {
		first := t.first.Load()
		if first == 0 {
			first = at
		} else {
			n++
		}
		s.FirstNs, s.LastNs = min(s.FirstNs, first), max(s.LastNs, first)
	}
	return s, n
}

// syncAtEnd makes all that was written durable, unless the run has ended early. Files that are open are synced one
// by one. No budget covers an error of it: it is about everything that was written.
func (r *run) syncAtEnd() {
	if r.test.Sync != spec.SyncAtEnd || r.test.Engine == spec.Null || r.stopped.Load() {
		return
	}
	err := r.syncAll()
	if err == nil {
		return
	}
	err = fmt.Errorf("sync at the end: %w", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) < maxErrors {
		r.samples = append(r.samples, err.Error())
	}
	r.fault = &fault{code: codeOf(err), subject: "sync", err: err}
}

func (r *run) syncAll() (err error) {
	for at, s := range r.sets {
		if _, uses := r.uses(s); s.grows || r.threads[0].opened[at] == nil && uses[spec.Write] || r.threads[0].appends[at] == nil && uses[spec.Append] {
			return errors.Join(err, unix.Syncfs(r.dir.fd))
		}
		for _, fd := range append(r.threads[0].opened[at], r.threads[0].appends[at]...) {
			if e := unix.Fsync(int(fd)); e != nil && err == nil {
				err = e
			}
		}
	}
	return err
}
