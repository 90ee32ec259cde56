package api_test

import (
	"fmt"
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

// BenchmarkExchange holds a worker over HTTP against one in the process of the engine: steps
// that do nothing, of jobs of one step that wait in the queue, in batches of a size. The CPU
// time is that of the whole process, client and server.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{1, 10, 50} {
		b.Run(fmt.Sprint("direct/", size), func(b *testing.B) {
			s := newSite(b)
			exchangeAll(b, s, s.engine, size)
		})
		b.Run(fmt.Sprint("http/", size), func(b *testing.B) {
			s := newSite(b)
			e, err := remote.Open(b.Context(), s.url, remote.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			exchangeAll(b, s, e, size)
		})
	}
}

// exchangeAll runs b.N steps.
func exchangeAll(b *testing.B, s *site, l link.Worker, size int) {
	b.Helper()
	def, err := workflow.Parse("noop.yaml", []byte(noop))
	if err != nil {
		b.Fatal(err)
	}
	cl := client.Over(s.engine, client.Config{}, nil)
	for left := b.N; left > 0; left -= 500 {
		subs := make([]client.Submission, min(left, 500))
		for i := range subs {
			subs[i].Workflow = def
		}
		if _, err := cl.Jobs.SubmitAll(b.Context(), subs...); err != nil {
			b.Fatal(err)
		}
	}
	w, release, err := l.Register(b.Context(), link.Registration{Actor: "bench", Queues: []string{"default"}, Handlers: []string{"noop"}, Worker: pawl.Worker{
		Workspace: pawl.DefaultWorkspace, Name: "bench", Capacity: size, Handlers: []string{"default/noop"}, Routes: []rowkey.Route{pawl.Route(pawl.DefaultWorkspace, "default", "noop", 0)}}})
	if err != nil {
		b.Fatal(err)
	}
	defer release()
	b.ResetTimer()
	before := cpu(b)
	var reports []link.Report
	for done := 0; done < b.N; {
		got, err := l.Exchange(b.Context(), link.Exchange{Worker: w, Reports: reports, Free: size})
		if err != nil {
			b.Fatal(err)
		}
		done += len(reports)
		reports = reports[:0]
		for i := range got {
			if _, _, err := l.StepInput(b.Context(), &got[i]); err != nil {
				b.Fatal(err)
			}
			reports = append(reports, link.Report{Step: got[i].Step.StepKey, Claim: got[i].Step.Claims, Actor: "bench",
				Report: decide.Report{Event: lifecycle.StepSuccess, Output: []byte("null")}})
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/step")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
