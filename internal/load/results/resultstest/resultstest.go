// Package resultstest makes folders of load runs for tests.
package resultstest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// File is the load file of runs, with a threshold that they do not keep.
const File = "name: small\nfiles: [{name: d, count: 1, size: 4KiB}]\nmix: [{operation: read}]\nthresholds: [{operation: read, p99: 1ms}, {errors: 0}]\n"

// Start is the start of runs.
var Start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Parsed returns what a load file says.
func Parsed(t testing.TB, file string) *spec.Test {
	t.Helper()
	test, err := spec.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return test
}

// ID returns the id of the run with a number.
func ID(n int) string { return fmt.Sprintf("01J000000000000000000000%02d", n) }

// Write writes the result of the run with a number, which has two agents and lasts for some seconds. It
// begins so many minutes after Start, and each agent reads once in a second, which takes 2 ms.
func Write(t testing.TB, dir, name string, n, seconds int, file string) {
	t.Helper()
	start := Start.Add(time.Duration(n) * time.Minute)
	folder, err := report.NewFolder(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	run := report.Run{ID: ID(n), Config: []byte(file), Test: Parsed(t, file), Started: start, Ended: start.Add(time.Duration(seconds) * time.Second), Outcome: report.Completed}
	for i := range 2 {
		records := filepath.Join(folder.Records(), strconv.Itoa(i))
		if err := os.WriteFile(records, result(t, run.ID, seconds), 0o600); err != nil {
			t.Fatal(err)
		}
		run.Agents = append(run.Agents, report.Agent{
			Index: i, Address: fmt.Sprintf("host%d:7296", i+1), Info: &loadpb.AgentInfo{Id: fmt.Sprintf("node-%d", i+1)}, Status: loadpb.Status_STATUS_COMPLETED,
			Clock: report.Clock{Offset: time.Second, Bound: 40 * time.Microsecond, Probes: 32}, Skew: [2]time.Duration{10 * time.Microsecond, 30 * time.Microsecond}, Begun: true,
			Records: records,
		})
	}
	j := Journal(t, dir, name, n, file)
	j.Changed(View(n, controller.Connecting))
	j.Ended(&run)
	if _, err := folder.Write(&run); err != nil {
		t.Fatal(err)
	}
	j.Kept(&run, name)
	if err := errors.Join(j.Close(), folder.Close()); err != nil {
		t.Fatal(err)
	}
}

// result returns the records of an agent.
func result(t testing.TB, id string, seconds int) []byte {
	t.Helper()
	var out bytes.Buffer
	put := func(r *loadpb.ResultRecord) {
		if _, err := protodelim.MarshalTo(&out, r); err != nil {
			t.Fatal(err)
		}
	}
	total := stats.Table{}
	for s := range seconds {
		one := Table()
		total.Merge(one)
		put(interval(s, one))
	}
	put(&loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: &loadpb.Result{RunId: id, Status: loadpb.Status_STATUS_COMPLETED, Seconds: float64(seconds), Totals: total.Proto(),
		Transitions: []*loadpb.Transition{{Event: "connect", To: "IDLE", Sequence: 1, AtNs: 1}, {From: "IDLE", Event: "config", To: "CONFIG_RECEIVED", Sequence: 2, AtNs: 2}}}}})
	return out.Bytes()
}

// Table returns what an agent does in a second.
func Table() stats.Table {
	var h histogram.Histogram
	h.Record(2e6)
	return stats.Table{{Operation: "read", SizeClass: "<=4KiB"}: {Operations: 1, Bytes: 4096, Service: h}}
}

// Journal begins the journal of the run with a number.
func Journal(t testing.TB, dir, name string, n int, file string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Config{Dir: filepath.Join(dir, name), Info: journal.Info{Run: ID(n), Actor: "ann", Program: "test"}, Config: []byte(file), Test: Parsed(t, file)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Record adds so many seconds of an agent to a file, as a controller writes them, and to the journal if the
// file is new.
func Record(t testing.TB, j *journal.Journal, file string, agent, from, to int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if from == 0 {
		j.Recorded(agent, file)
	}
	for s := range to - from {
		if _, err := protodelim.MarshalTo(f, interval(from+s, Table())); err != nil {
			t.Fatal(err)
		}
	}
}

// interval returns the record of a second.
func interval(s int, done stats.Table) *loadpb.ResultRecord {
	return &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: &loadpb.Interval{StartNs: int64(s) * 1e9, EndNs: int64(s+1) * 1e9, Operations: done.Proto()}}}
}

// View returns the run with a number in a phase, with two agents whose clocks are measured.
func View(n int, p controller.Phase) controller.View {
	v := controller.View{ID: ID(n), Phase: p}
	if p == controller.Running {
		v.Start = Start.Add(time.Duration(n) * time.Minute)
	}
	for i := range 2 {
		v.Agents = append(v.Agents, controller.AgentView{
			Index: i, Name: fmt.Sprintf("agent host%d", i+1), Address: fmt.Sprintf("host%d:7296", i+1), Info: &loadpb.AgentInfo{Id: fmt.Sprintf("node-%d", i+1)},
			Status: loadpb.Status_STATUS_RUNNING, Measured: true, Clock: report.Clock{Bound: 40 * time.Microsecond}, Begun: true, Skew: [2]time.Duration{1000, 2000},
		})
	}
	return v
}

// Second returns what both agents have done in a second.
func Second(s int) controller.Interval {
	t := Table()
	t.Merge(Table())
	return controller.Interval{Start: time.Duration(s) * time.Second, End: time.Duration(s+1) * time.Second, Agents: 2, Operations: t}
}
