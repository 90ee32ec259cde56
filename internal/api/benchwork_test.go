package api_test

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

const noop = "name: noop\nsteps: [{id: a, handler: noop}]\n"

// benchRound is how many steps a worker of BenchmarkExchange runs before it is the other's
// turn.
const benchRound = 1000

// BenchmarkExchange holds a worker over HTTP against one in the process of the engine: steps
// that do nothing, of jobs of one step that wait in the queue, in batches of a size. They take
// turns, since what else the machine does changes the figures of both. The CPU time is that of
// the whole process, client and server: medians of the rounds. So is the memory that is allocated,
// which differs less from run to run.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{1, 10, 50} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			near, far := newSite(b), newSite(b)
			near.polls(3 * time.Second) // the default
			far.polls(3 * time.Second)
			e, err := remote.Open(b.Context(), far.url, remote.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			direct, http := newHand(b, near, near.engine, size), newHand(b, far, e, size)
			var of [4][]float64
			b.ResetTimer()
			for left := b.N; left > 0; left -= benchRound {
				n := min(left, benchRound)
				d, h := direct.run(n), http.run(n)
				for i, cost := range []float64{d.cpu, h.cpu, h.cpu - d.cpu, h.bytes - d.bytes} {
					of[i] = append(of[i], cost)
				}
			}
			reportMedians(b, of[:], "direct-us/step", "http-us/step", "more-us/step", "more-B/step")
			b.ReportMetric(100*of[2][len(of[2])/2]/of[0][len(of[0])/2], "more-%")
		})
	}
}

// reportMedians reports the medians of lists, which it sorts.
func reportMedians(b *testing.B, of [][]float64, units ...string) {
	for i, unit := range units {
		slices.Sort(of[i])
		b.ReportMetric(of[i][len(of[i])/2], unit)
	}
}

// A hand is a worker of BenchmarkExchange.
type hand struct {
	b      *testing.B
	link   link.Worker
	client *client.Client
	def    *workflow.Definition
	worker *pawl.Worker
	size   int
}

// newHand registers a worker for queues, by default for the default one.
func newHand(b *testing.B, s *site, l link.Worker, size int, queues ...string) *hand {
	b.Helper()
	if len(queues) == 0 {
		queues = []string{"default"}
	}
	var handlers []string
	var routes []rowkey.Route
	for _, q := range queues {
		handlers, routes = append(handlers, q+"/noop"), append(routes, pawl.Route(pawl.DefaultWorkspace, q, "noop", 0))
	}
	def, err := workflow.Parse("noop.yaml", []byte(noop))
	if err != nil {
		b.Fatal(err)
	}
	w, release, err := l.Register(b.Context(), link.Registration{Actor: "bench", Queues: queues, Handlers: []string{"noop"}, Worker: pawl.Worker{
		Workspace: pawl.DefaultWorkspace, Name: "bench", Capacity: size, Handlers: handlers, Routes: routes}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(release)
	return &hand{b, l, client.Over(s.engine, client.Config{}, nil), def, w, size}
}

// A stepCost is what a step has cost.
type stepCost struct{ cpu, bytes float64 } // microseconds; what was allocated

// run submits n jobs, runs their steps, and returns the cost of a step.
func (h *hand) run(n int) stepCost {
	h.b.Helper()
	h.submit(n)
	allocated, before := allocations(), cpu(h.b)
	h.drain(n)
	took := cpu(h.b) - before
	return stepCost{float64(took.Nanoseconds()) / 1000 / float64(n), float64(allocations()-allocated) / float64(n)}
}

// submit submits n jobs.
func (h *hand) submit(n int) {
	h.b.Helper()
	subs := make([]client.Submission, n)
	for i := range subs {
		subs[i].Workflow = h.def
	}
	if _, err := h.client.Jobs.SubmitAll(h.b.Context(), subs...); err != nil {
		h.b.Fatal(err)
	}
}

// drain runs the steps of n jobs that wait.
func (h *hand) drain(n int) {
	h.b.Helper()
	var reports []link.Report
	actor := h.worker.ID.Public(pawl.WorkerPrefix) // as package worker has it
	for done := 0; done < n; {
		got, err := h.link.Exchange(h.b.Context(), link.Exchange{Worker: h.worker, Reports: reports, Free: h.size})
		if err != nil {
			h.b.Fatal(err)
		}
		done += len(reports)
		reports = reports[:0]
		for i := range got {
			if _, _, err := h.link.StepInput(h.b.Context(), &got[i]); err != nil {
				h.b.Fatal(err)
			}
			reports = append(reports, link.Report{Step: got[i].Step.StepKey, Claim: got[i].Step.Claims, Actor: actor,
				Report: decide.Report{Event: lifecycle.StepSuccess, Output: []byte("null")}})
		}
	}
}

// allocations returns how many bytes the process has allocated so far.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPauses holds a worker beside 1,000 paused queues against one beside none: queues that it
// does not serve, and queues that both serve, in each of which a step waits. They take turns, as in
// BenchmarkExchange.
func BenchmarkPauses(b *testing.B) {
	const paused = 1000
	for _, served := range []bool{false, true} {
		b.Run(fmt.Sprintf("served=%t", served), func(b *testing.B) {
			plain, beside := newSite(b), newSite(b)
			for i := range paused {
				queue := pawl.QueueName{Name: fmt.Sprint("paused_", i)}
				if _, err := beside.engine.PauseQueue(b.Context(), queue, pawl.Change{Actor: "bench"}); err != nil {
					b.Fatal(err)
				}
			}
			queues := []string{"default"}
			if served {
				for i := range paused {
					queues = append(queues, fmt.Sprint("paused_", i))
					def, err := workflow.Parse("waits.yaml", fmt.Appendf(nil, "name: waits\nsteps: [{id: a, handler: noop, queue: paused_%d}]\n", i))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := client.Over(beside.engine, client.Config{}, nil).Jobs.Submit(b.Context(), def, nil); err != nil {
						b.Fatal(err)
					}
				}
			}
			without, with := newHand(b, plain, plain.engine, 10, queues...), newHand(b, beside, beside.engine, 10, queues...)
			var of [3][]float64
			b.ResetTimer()
			for left := b.N; left > 0; left -= benchRound {
				n := min(left, benchRound)
				p, w := without.run(n), with.run(n)
				for i, cost := range []float64{p.cpu, w.cpu, w.cpu - p.cpu} {
					of[i] = append(of[i], cost)
				}
			}
			reportMedians(b, of[:], "none-us/step", "paused-us/step", "more-us/step")
		})
	}
}
