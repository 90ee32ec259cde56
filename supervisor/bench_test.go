package supervisor_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/supervisor"
)

// S13, S2. The numbers are metrics of the benchmarks, for a machine to be compared with
// itself: bytes and goroutines of an idle service, CPU of a turn with its collection (on a busy
// machine there are less than one a second), and from wake to decision; that again with services
// that are stuck, and how many times what it is without them.
//
//	go test ./supervisor -run xxx -bench . -benchtime 1x

var sizes = []int{1_000, 10_000, 100_000}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// A crowd is a supervisor of many services that run and have nothing to do.
type crowd struct {
	s      *supervisor.Supervisor
	plants []*plant
	stop   func()
}

// looks returns how many collections there were.
func (c *crowd) looks() (n int) {
	for _, p := range c.plants {
		n += p.looked()
	}
	return n
}

func gather(b testing.TB, n int, c supervisor.Config) *crowd {
	b.Helper()
	c.Log = quiet()
	s, err := supervisor.New(c)
	if err != nil {
		b.Fatal(err)
	}
	all := &crowd{s: s}
	for i := range n {
		id := fmt.Sprintf("service-%d", i)
		p := &plant{id: id, up: true}
		all.plants = append(all.plants, p)
		if _, err := supervisor.Add(context.Background(), s, supervisor.Identity{ID: id}, p, want{}, supervisor.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		_, _ = s.Run(ctx)
		close(done)
	}()
	for s.Stats().Services["running"] < n {
		time.Sleep(100 * time.Millisecond)
	}
	all.stop = func() {
		s.Force()
		cancel()
		<-done
	}
	return all
}

func BenchmarkIdle(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				before, routines := memory(), runtime.NumGoroutine()
				c := gather(b, n, supervisor.Config{})
				time.Sleep(time.Second)
				b.ReportMetric(float64(int64(memory()-before))/float64(n), "B/service")
				least := runtime.NumGoroutine()
				for range 100 {
					least = min(least, runtime.NumGoroutine())
					time.Sleep(time.Millisecond)
				}
				b.ReportMetric(float64(least-routines), "goroutines")
				b.ReportMetric(float64(least-routines)/float64(n), "goroutines/service")
				began, used, looks := time.Now(), cpu(), c.looks()
				time.Sleep(10 * time.Second)
				used, looks = cpu()-used, c.looks()-looks
				b.ReportMetric(float64(looks)/time.Since(began).Seconds()/float64(n), "Hz")
				b.ReportMetric(float64(used.Nanoseconds())/1000/float64(looks), "cpu-µs/turn")
				c.stop()
			}
		})
	}
}

// S13: a thousand idle services have no goroutine and at most 2 KiB each, what the
// test itself keeps of them included.
func TestIdleServicesAreCheap(t *testing.T) { // beside no other test
	const n = 1000
	before, routines := heap(), runtime.NumGoroutine()
	c := gather(t, n, supervisor.Config{Shards: 2})
	defer c.stop()
	if got := int64(heap()-before) / n; got > 2048 {
		t.Errorf("%d bytes for each service, want at most 2048", got)
	}
	least, until := 0, time.Now().Add(20*time.Second)
	for ok := false; !ok && time.Now().Before(until); ok = least <= 2+2 { // the loops, Run, and at times a collection
		least = runtime.NumGoroutine() - routines
		runtime.Gosched()
	}
	if least > 4 {
		t.Errorf("%d goroutines for %d idle services", least, n)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A stopwatch takes how long services wait from wake to decision.
type stopwatch struct {
	mu    sync.Mutex
	woken map[string]bool
	waits []time.Duration
}

func (w *stopwatch) decided(id supervisor.Identity, waited, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken[id.ID] {
		w.waits = append(w.waits, waited+took)
		delete(w.woken, id.ID)
	}
}

// measure wakes up to 2000 services of a crowd, one each millisecond, and returns the
// median and the 99th percentile.
func (w *stopwatch) measure(c *crowd) (p50, p99 time.Duration) {
	w.mu.Lock()
	w.woken, w.waits = map[string]bool{}, nil
	w.mu.Unlock()
	for i := range min(2*len(c.plants), 2000) {
		id := c.plants[i%len(c.plants)].id
		w.mu.Lock()
		w.woken[id] = true
		w.mu.Unlock()
		_ = c.s.Wake(id)
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.waits)
	return w.waits[len(w.waits)/2], w.waits[len(w.waits)*99/100]
}

func BenchmarkWakeToDecision(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var w stopwatch
				c := gather(b, n, supervisor.Config{Hooks: supervisor.Hooks{Decided: w.decided}})
				p50, p99 := w.measure(c)
				b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
				b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
				c.stop()
			}
		})
	}
}

// A jam is a journal in which the entries of one service wait.
type jam struct {
	supervisor.MemoryJournal
	entity string
	over   chan struct{}
}

func (j *jam) Append(ctx context.Context, e audit.Entry) error {
	if e.Entity == j.entity && e.Sequence > 1 {
		<-j.over
	}
	return j.MemoryJournal.Append(ctx, e)
}

// S2: with one service stuck in each of an action, a collection and the journal, the
// others are decided as soon as without. Both are measured in turns, so that what
// else the machine does is in both.
func BenchmarkStuck(b *testing.B) {
	const n, rounds = 1000, 11
	for b.Loop() {
		w, over := &stopwatch{}, make(chan struct{})
		j := &jam{entity: supervisor.Entity("journal", 1), over: over}
		c := gather(b, n, supervisor.Config{Journal: j, Hooks: supervisor.Hooks{Decided: w.decided}})
		stuck := func(context.Context, *plant) error { <-over; return nil }
		var all [2][2][]float64 // without and with, p50 and p99
		for range rounds {
			for with := range 2 {
				if with == 1 {
					for _, p := range []*plant{{id: "action", start: stuck}, {id: "look", look: stuck}, {id: "journal"}} {
						if _, err := supervisor.Add(context.Background(), c.s, supervisor.Identity{ID: p.id}, p, want{}, supervisor.Options{}); err != nil {
							b.Fatal(err)
						}
					}
				}
				p50, p99 := w.measure(c)
				all[with][0] = append(all[with][0], float64(p50.Nanoseconds())/1000)
				all[with][1] = append(all[with][1], float64(p99.Nanoseconds())/1000)
			}
			close(over) // and now they continue, and end
			for _, id := range []string{"action", "look", "journal"} {
				if _, err := c.s.Remove(context.Background(), id); err != nil {
					b.Fatal(err)
				}
			}
			over = make(chan struct{})
			j.over = over
		}
		for i, name := range []string{"p50", "p99"} {
			without, with := median(all[0][i]), median(all[1][i])
			b.ReportMetric(without, name+"-µs")
			b.ReportMetric(with, name+"-stuck-µs")
			b.ReportMetric(with/without, name+"-ratio")
		}
		c.stop()
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
