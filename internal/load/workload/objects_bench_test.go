//go:build linux

package workload

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
	"github.com/pawl-dev/pawl/internal/load/enginepb"
)

// benchSeconds is how long each subject of a benchmark runs.
const benchSeconds = 2

// BenchmarkObjects: what the engine s3 reads, in ranges of 4 KiB, from a server that stores nothing, beside a bare
// client of net/http, which signs nothing, and the engine null, in the same run. The server takes its share of the processors alike.
func BenchmarkObjects(b *testing.B) {
	s := s3test.Start(b, "-null")
	for _, inFlight := range []int{1, 8} {
		b.Run(fmt.Sprintf("s3/%d", inFlight), func(b *testing.B) {
			for range b.N {
				f := benchObjects(b, s, "engine: s3", inFlight)
				b.ReportMetric((f.GetCpuUserSeconds()+f.GetCpuSystemSeconds())*1e9/operations(f), "cpu-ns/read")
				b.ReportMetric(operations(f)/f.GetSeconds(), "reads/s")
			}
		})
		b.Run(fmt.Sprintf("net_http/%d", inFlight), func(b *testing.B) {
			for range b.N {
				b.ReportMetric(benchPlain(b, s.URL+"/key", inFlight), "reads/s")
			}
		})
	}
	b.Run("null/8", func(b *testing.B) {
		for range b.N {
			f := benchObjects(b, s, `engine: "null"`, 8)
			b.ReportMetric(operations(f)/f.GetSeconds(), "reads/s")
		}
	})
}

func operations(f *enginepb.Finished) (n float64) {
	for _, o := range f.GetTotals() {
		n += float64(o.GetOperations())
	}
	return n
}

func benchObjects(b *testing.B, s *s3test.Server, engine string, jobs int) *enginepb.Finished {
	job := newJob(b, fmt.Sprintf("{name: bench, %s, files: [{name: data, count: 8, size: 64KiB}], mix: [{operation: read, block: 4KiB}], jobs: %d, duration: %ds}", engine, jobs, benchSeconds))
	if engine == "engine: s3" {
		job.Root = s.URL
	}
	p := start(b, job, s.Env()...)
	p.prepare()
	p.run(soon())
	_, _, f := p.finished()
	if f.GetError() != nil {
		b.Fatal(f.GetError())
	}
	p.clean()
	return f
}

// benchPlain returns how many requests of net/http succeed in a second.
func benchPlain(b *testing.B, url string, workers int) float64 {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	defer client.CloseIdleConnections()
	var n atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range workers {
		all.Go(func() {
			for time.Since(began) < benchSeconds*time.Second {
				if err := benchGet(client, url); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

func benchGet(client *http.Client, url string) error {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Range", "bytes=0-4095")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
