package api_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// The benchmarks hold the API against the engine that it serves, in the same process and
// on the same SQLite file, with 16 callers: how many operations a second, and how long the
// median and the slowest of a hundred take.
const callers = 16

func BenchmarkSubmit(b *testing.B) {
	b.Run("engine", func(b *testing.B) {
		s := newBench(b)
		cl := client.Over(s.engine, client.Config{}, nil)
		measure(b, func() error {
			done, err := cl.Jobs.SubmitAll(b.Context(), client.Submission{Name: "order"})
			if err == nil {
				err = done[0].Err
			}
			return err
		})
	})
	b.Run("http", func(b *testing.B) {
		s := newBench(b)
		measure(b, func() error { return s.call(http.MethodPost, "/api/jobs", `{"workflow":"order"}`) })
	})
	b.Run("http with a key", func(b *testing.B) {
		s := newBench(b)
		var n atomic.Int64
		measure(b, func() error {
			return s.call(http.MethodPost, "/api/jobs", fmt.Sprintf(`{"workflow":"order","request_id":"%d"}`, n.Add(1)))
		})
	})
}

func BenchmarkRead(b *testing.B) {
	b.Run("engine", func(b *testing.B) {
		s := newBench(b)
		id := s.job(b)
		measure(b, func() error { _, err := s.engine.Job(b.Context(), id); return err })
	})
	b.Run("http", func(b *testing.B) {
		s := newBench(b)
		path := "/api/jobs/" + s.job(b).Public(pawl.JobPrefix)
		measure(b, func() error { return s.call(http.MethodGet, path, "") })
	})
}

// rate is how many operations a second BenchmarkAtARate begins, whether those before have ended
// or not.
var rate = flag.Int("rate", 500, "operations a second of BenchmarkAtARate")

// BenchmarkAtARate begins operations at a fixed rate, half of them submissions and half of them
// reads, on the engine and over HTTP, a second each in turns, since what else the machine does
// changes the figures of both. An operation takes from when it was to begin until it has ended, so
// that one that waits for a slow one before it counts as slow.
func BenchmarkAtARate(b *testing.B) {
	near, far := newBench(b), newBench(b)
	cl, id := client.Over(near.engine, client.Config{}, nil), near.job(b)
	path := "/api/jobs/" + far.job(b).Public(pawl.JobPrefix)
	direct := &offered{do: [2]func() error{func() error {
		done, err := cl.Jobs.SubmitAll(b.Context(), client.Submission{Name: "order"})
		if err == nil {
			err = done[0].Err
		}
		return err
	}, func() error { _, err := near.engine.Job(b.Context(), id); return err }}}
	served := &offered{do: [2]func() error{
		func() error { return far.call(http.MethodPost, "/api/jobs", `{"workflow":"order"}`) },
		func() error { return far.call(http.MethodGet, path, "") },
	}}
	b.ResetTimer()
	for left := b.N; left > 0; left -= *rate {
		direct.atARate(b, min(left, *rate))
		served.atARate(b, min(left, *rate))
	}
	b.StopTimer()
	direct.report(b, "engine")
	served.report(b, "http")
}

// An offered is a service to which submissions and reads are offered.
type offered struct {
	do [2]func() error // submits, and reads

	mu   sync.Mutex
	took [2][]time.Duration
}

// atARate begins n operations, submissions and reads in turns, and waits for them.
func (o *offered) atARate(b *testing.B, n int) {
	b.Helper()
	var all sync.WaitGroup
	begun := time.Now()
	for i := range n {
		due := begun.Add(time.Duration(i) * time.Second / time.Duration(*rate))
		time.Sleep(time.Until(due))
		all.Go(func() {
			err := o.do[i%2]()
			d := time.Since(due)
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.took[i%2] = append(o.took[i%2], d); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}

func (o *offered) report(b *testing.B, name string) {
	for i, what := range [2]string{"submit", "read"} {
		slices.Sort(o.took[i])
		if n := len(o.took[i]); n > 0 {
			b.ReportMetric(float64(o.took[i][n/2].Microseconds()), name+"-"+what+"-p50-µs")
			b.ReportMetric(float64(o.took[i][n*99/100].Microseconds()), name+"-"+what+"-p99-µs")
		}
	}
}

func newBench(b *testing.B) *site {
	b.Helper()
	s := newSite(b)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	return s
}

// job submits a job and returns its id.
func (s *site) job(b *testing.B) pawl.ID {
	b.Helper()
	id, err := pawl.ParseID(pawl.JobPrefix, s.want(201, "POST", "/api/jobs", `{"workflow":"order"}`).field(b, "id").(string))
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// connections keeps one connection for each caller.
var connections = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}

func (s *site) call(method, path, body string) error {
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := connections.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// measure calls do b.N times from all callers.
func measure(b *testing.B, do func() error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				began := time.Now()
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
