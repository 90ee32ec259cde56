package api_test

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// mute opens a stream of which nothing is read after its first event.
func (s *site) mute() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := fmt.Fprintf(conn, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	for begun := bufio.NewReaderSize(conn, 16); ; {
		line, err := begun.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if line == "event: hello\n" {
			return conn
		}
	}
}

// heap returns the bytes of the heap that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestIdleStreams: a thousand streams cost little, and there are no more (J3).
func TestIdleStreams(t *testing.T) { // not parallel: it measures the heap
	const most, streams = 64 << 10, 1000
	s := newSite(t)
	s.mute()
	before := heap()
	for range streams - 1 {
		s.mute()
	}
	each := (heap() - before) / (streams - 1)
	t.Logf("%d bytes of heap and stacks for each of %d idle streams, the client's side included", each, streams)
	if each > most {
		t.Errorf("%d bytes for each stream, want at most %d", each, most)
	}
	s.want(429, "GET", "/api/events", "")
}

// loadRequests is how many requests TestMemoryStaysFlat sends.
var loadRequests = flag.Int("load.requests", 6000, "requests of TestMemoryStaysFlat")

// TestMemoryStaysFlat: what a server keeps of a request, it does not keep for long: the heap after
// all requests is that after a third of them (J3).
func TestMemoryStaysFlat(t *testing.T) { // not parallel: it measures the heap
	const most = 8 << 20
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": one}))
	id := s.want(201, "POST", "/api/jobs", text(map[string]any{"source": one, "request_id": "first"})).field(t, "id").(string)
	send := func(n int) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range n / 8 {
					switch i % 4 {
					case 0:
						s.want(200, "GET", "/api/jobs/"+id, "")
					case 1:
						s.want(200, "GET", "/api/jobs?limit=5", "")
					case 2:
						s.want(201, "POST", "/api/jobs", text(map[string]any{"source": one, "request_id": "first"})) // replayed
					case 3:
						s.want(404, "GET", fmt.Sprintf("/api/jobs/j_%032d", i), "")
					}
				}
			})
		}
		all.Wait()
	}
	send(*loadRequests / 3)
	before := heap()
	send(*loadRequests * 2 / 3)
	grown := heap() - before
	t.Logf("after %d requests the heap has grown by %d KiB", *loadRequests*2/3, grown>>10)
	if grown > most {
		t.Errorf("the heap has grown by %d bytes, want at most %d", grown, most)
	}
}

// streams waits until no more streams than that are open, for a minute at most, and returns how many are.
func (s *site) streams(most int64) int64 {
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(time.Minute); ; <-ticks.C {
		if n := s.engine.Feed().Stats().Streams; n <= most || time.Now().After(end) {
			return n
		}
	}
}

// TestStalledReaders: 200 clients that stop reading delay others by nothing that grows, cost
// no memory that grows, and are cut off (J3).
func TestStalledReaders(t *testing.T) { // not parallel: it measures the heap
	const stalled, reading, batches, jobs = 200, 5, 20, 500
	s := newSite(t)
	for range stalled {
		s.mute()
	}
	var all sync.WaitGroup
	var counts [reading]int
	lags := make([][]time.Duration, reading)
	for i := range reading {
		l := s.listen("")
		l.next()
		all.Go(func() {
			for counts[i] < 3*jobs*batches {
				list, _ := l.until(func(*pawl.Event) bool { return true })
				counts[i] += len(list)
				lags[i] = append(lags[i], time.Since(list[len(list)-1].At.Time()))
			}
		})
	}
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": one}))
	before, most := heap(), int64(0)
	batch := text(map[string]any{"jobs": slices.Repeat([]any{map[string]any{"workflow": "one"}}, jobs)})
	for range batches {
		s.want(200, "POST", "/api/jobs/batch", batch)
		most = max(most, heap()-before)
	}
	all.Wait()
	if n := s.streams(reading); n != reading {
		t.Fatalf("%d streams are left, want the %d that read", n, reading)
	}
	var early, late []time.Duration
	for _, l := range lags {
		early, late = append(early, l[:len(l)/2]...), append(late, l[len(l)/2:]...)
	}
	slices.Sort(early)
	slices.Sort(late)
	first, second := early[len(early)/2], late[len(late)/2]
	t.Logf("%d events for each of %d readers beside %d stalled ones; median lag %v, then %v, at most %v; the heap grew by %d MiB at most",
		counts[0], reading, stalled, first, second, late[len(late)-1], most>>20)
	if second > 2*first+time.Second {
		t.Errorf("the lag grows: at first %v, then %v", first, second)
	}
	if most > 512<<20 {
		t.Errorf("the heap grew by %d MiB, want at most 512", most>>20)
	}
}
