// Program supervisors compares package supervisor with two alternatives: the workqueue of
// client-go, which drives the controllers of Kubernetes, and suture, a supervisor of
// goroutines. Each examines a number of things once a second, and decides that there is
// nothing to do; now and then one of them is woken.
//
// They do not promise the same. A workqueue only says which key is due: no state, no deadline
// of an examination, no action. suture restarts a goroutine that ends; what the goroutine
// examines is up to it. The numbers show the cost of the promises.
//
// CPU is the time of the process divided by its examinations, so that a busy machine, which
// makes fewer of them, is visible.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"
)

// A subject looks at n things once a second. Ready is closed when it has looked at
// each. Decide is called for each look, with the thing's number.
type subject struct {
	name string
	run  func(ctx context.Context, n int, decide func(thing int)) (wake func(thing int), wait func())
}

var subjects = []subject{{"pawl supervisor", pawl}, {"client-go workqueue", workqueues}, {"suture", sutures}}

func main() {
	n := flag.Int("n", 10_000, "things")
	seconds := flag.Int("seconds", 10, "how long each is measured")
	only := flag.String("only", "", "the subject of this name")
	flag.Parse()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUBJECT\tTHINGS\tB/THING\tGOROUTINES\tHZ\tCPU µS/LOOK\tWAKE P50 µS\tP99 µS")
	for _, s := range subjects {
		if *only == "" || *only == s.name {
			r := s.measure(*n, time.Duration(*seconds)*time.Second)
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.2f\t%.2f\t%d\t%d\n", s.name, *n, r.bytes, r.goroutines, r.hz, r.cpu, r.p50, r.p99)
		}
	}
	_ = w.Flush()
}

type result struct {
	bytes      int64
	goroutines int
	hz, cpu    float64
	p50, p99   int64 // microseconds
}

// A meter counts looks, and how long those took that somebody asked for.
type meter struct {
	looks atomic.Int64
	seen  []atomic.Bool
	left  atomic.Int64 // things not looked at yet
	woken []atomic.Int64

	mu    sync.Mutex
	waits []time.Duration
}

func (m *meter) decide(thing int) {
	m.looks.Add(1)
	if !m.seen[thing].Swap(true) {
		m.left.Add(-1)
	}
	if at := m.woken[thing].Swap(0); at != 0 {
		m.mu.Lock()
		m.waits = append(m.waits, time.Since(time.Unix(0, at)))
		m.mu.Unlock()
	}
}

func (s subject) measure(n int, d time.Duration) result {
	m := &meter{seen: make([]atomic.Bool, n), woken: make([]atomic.Int64, n)}
	m.left.Store(int64(n))
	before, routines := memory(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	wake, wait := s.run(ctx, n, m.decide)
	for m.left.Load() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	r := result{bytes: (memory() - before) / int64(n)}
	r.goroutines = fewest() - routines
	began, used, looks := time.Now(), cpu(), m.looks.Load()
	time.Sleep(d)
	used, looks = cpu()-used, m.looks.Load()-looks
	r.hz = float64(looks) / time.Since(began).Seconds() / float64(n)
	r.cpu = float64(used.Nanoseconds()) / 1000 / float64(max(looks, 1))
	for i := range min(n, 2000) {
		m.woken[i].Store(time.Now().UnixNano())
		wake(i)
		time.Sleep(time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	cancel()
	wait()
	slices.Sort(m.waits)
	if k := len(m.waits); k > 0 {
		r.p50, r.p99 = m.waits[k/2].Microseconds(), m.waits[k*99/100].Microseconds()
	}
	return r
}

// fewest returns the least number of goroutines of a while: those that stay.
func fewest() int {
	least := runtime.NumGoroutine()
	for range 200 {
		time.Sleep(time.Millisecond)
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
