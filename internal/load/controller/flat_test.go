//go:build linux

package controller

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
)

// flatCount is how many operations each agent of TestFlatProcesses does; `make verify` has it do more.
var flatCount = flag.Int("flat.count", 5_000_000, "operations of each agent of TestFlatProcesses")

// A bulky agent has a result of many equal records, which it makes as they are fetched.
type bulky struct {
	fake
	record []byte
	n      int
	last   []byte
	heap   uint64 // the most that was reachable while it was fetched
}

func (b *bulky) FetchResult(_ *loadpb.FetchResultRequest, s grpc.ServerStreamingServer[loadpb.FetchResultResponse]) error {
	for i := range b.n {
		if i%50 == 0 {
			b.heap = max(b.heap, reachable())
		}
		if err := s.Send(&loadpb.FetchResultResponse{Data: b.record}); err != nil {
			return err
		}
	}
	return s.Send(&loadpb.FetchResultResponse{Data: b.last})
}

// reachable returns how many bytes of the heap are in use.
func reachable() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestFlatFetch: a result of 32 MiB is fetched, checked and evaluated without being in memory (L9).
func TestFlatFetch(t *testing.T) { // not parallel: the heap is that of the process
	const each, n = 128 << 10, 256
	encode := func(r *loadpb.ResultRecord) []byte {
		var b bytes.Buffer
		if _, err := protodelim.MarshalTo(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	histogram := &loadpb.Histogram{Buckets: bytes.Repeat([]byte{0, 1}, 3000)}
	i := &loadpb.Interval{EndNs: 1}
	for len(i.Operations) < each/len(histogram.Buckets) {
		i.Operations = append(i.Operations, &loadpb.OperationStats{Operation: "read", Operations: 1, Service: histogram})
	}
	b := &bulky{n: n, record: encode(&loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: i}}),
		last: encode(&loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: &loadpb.Result{RunId: runID}}})}
	sum := sha256.New()
	for range n {
		sum.Write(b.record)
	}
	sum.Write(b.last)
	target := serveAgent(t, b, "bulky")
	conn, err := grpc.NewClient("passthrough:bulky", target.Options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before := reachable()
	f := fetch{client: loadpb.NewAgentServiceClient(conn), runID: runID, path: filepath.Join(t.TempDir(), "0.result"), sha256: sum.Sum(nil), silence: time.Minute, reach: time.Minute}
	if _, err := f.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.path)
	if err != nil || info.Size() < 20<<20 {
		t.Fatal(info, err)
	}
	r, err := report.Evaluate(&report.Run{Test: fakeTest(), Outcome: report.Completed, Agents: []report.Agent{{Records: f.path}}})
	if err != nil || len(r.Series) != n {
		t.Error(len(r.Series), err)
	}
	if grown := int64(max(b.heap, reachable())) - int64(before); grown > info.Size()/2 {
		t.Errorf("%d MiB in memory, of a result of %d MiB", grown>>20, info.Size()>>20)
	}
}

// TestFlatProcesses: two agents do ten million operations of nothing, with statistics of many kinds ten
// times a second, and neither their engines, nor they, nor the controller grow meanwhile (L9).
func TestFlatProcesses(t *testing.T) { // not parallel: the controller is this process
	l, _ := localAgents(t, 2, nil)
	file := `name: flat
engine: "null"
files: [{name: d, count: 4, size: 1MiB}]
mix:
  - {operation: read, block: {uniform: {min: 1B, max: 1MiB}}}
  - {operation: write, block: {uniform: {min: 1B, max: 1MiB}}}
  - {operation: stat}
jobs: 2
interval: 100ms
start: {delay: 100ms}
count: ` + strconv.Itoa(*flatCount) + "\n"
	c := parsed(t, file, l)
	var early, late map[string]int64
	c.Interval = func(Interval) {
		if sizes := resident(l); sizes != nil {
			if late = sizes; early == nil {
				early = sizes
			}
		}
	}
	run, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Evaluate(run)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Summary.Total.Operations; n != uint64(2**flatCount) || early == nil {
		t.Errorf("%d operations; %v", n, early)
	}
	for name, was := range early {
		if is := late[name]; is > was+16<<20 {
			t.Errorf("%s has grown from %d to %d MiB", name, was>>20, is>>20)
		}
	}
	t.Logf("%d operations; %v", r.Summary.Total.Operations, late)
}

// resident returns the memory of the agents, their engines, and this process in bytes; nil if one of
// them has ended.
func resident(l *Local) map[string]int64 {
	pids := map[string]string{"the controller": "self"}
	for _, a := range l.agents {
		pids["agent "+a.name] = strconv.Itoa(a.cmd.Process.Pid)
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.cmd.Process.Pid)) // the pattern is well-formed
		for _, name := range tasks {
			if b, err := os.ReadFile(name); err == nil && len(b) > 0 {
				pids["the engine of "+a.name] = strings.Fields(string(b))[0]
			}
		}
	}
	if len(pids) < 1+2*len(l.agents) {
		return nil
	}
	sizes := map[string]int64{}
	for name, pid := range pids {
		b, err := os.ReadFile("/proc/" + pid + "/statm")
		if err != nil {
			return nil
		}
		var total, pages int64
		if _, err := fmt.Sscan(string(b), &total, &pages); err != nil || pages == 0 { // it has ended just now
			return nil
		}
		sizes[name] = pages * int64(os.Getpagesize())
	}
	return sizes
}
