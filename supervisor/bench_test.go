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

	"github.com/pawl-dev/pawl/supervisor"
)

// S13. The numbers are metrics of the benchmarks, for a machine to be compared with
// itself: bytes and goroutines of an idle service, CPU of a turn with its collection (on a busy
// machine there are less than one a second), and from wake to decision.
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

// looks answers how many collections there were.
func (c *crowd) looks() (n int) {
	for _, p := range c.plants {
		n += p.looked()
	}
	return n
}

func gather(b *testing.B, n int, c supervisor.Config) *crowd {
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

func BenchmarkWakeToDecision(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var mu sync.Mutex
				waits := map[supervisor.Identity]time.Duration{}
				woken := map[supervisor.Identity]bool{}
				c := gather(b, n, supervisor.Config{Hooks: supervisor.Hooks{Decided: func(id supervisor.Identity, waited, _ time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					if woken[id] {
						waits[id] = waited
						delete(woken, id)
					}
				}}})
				for i := range min(n, 2000) {
					id := supervisor.Identity{ID: fmt.Sprintf("service-%d", i)}
					mu.Lock()
					woken[id] = true
					mu.Unlock()
					_ = c.s.Wake(id.ID)
					time.Sleep(time.Millisecond)
				}
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				sorted := make([]time.Duration, 0, len(waits))
				for _, w := range waits {
					sorted = append(sorted, w)
				}
				mu.Unlock()
				slices.Sort(sorted)
				b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds()), "p99-µs")
				c.stop()
			}
		})
	}
}
