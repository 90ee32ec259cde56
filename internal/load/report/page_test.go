package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

func pageOf(t *testing.T, run *Run) string {
	t.Helper()
	r, err := Evaluate(run)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPage: the page of a run is as expected, and is well-formed: each element is closed (L7).
func TestPage(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 2, agents: 2, seconds: 5, config: config}.run(t)
	run.Agents[1].Status = loadpb.Status_STATUS_ERROR
	run.Agents[1].Error = &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_IO, Message: "input/output error"}
	run.Outcome, run.Reason = Failed, "an agent has failed"
	got := pageOf(t, &run)
	golden(t, "testdata/page.html", got)
	wellFormed(t, got)
	for _, want := range []string{
		"Operations per second", "Throughput", "Latency over time", "Latency by percentile", "read response", "stat service", "99.9 %", // charts
		"p50", "p99", "max", `class="shade"`, "Threshold violated: throughput of all operations", "partial", "ERROR_CODE_IO", "input/output error", "node-2", "operation: write", // text
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestPageOfLeftFiles: a clean-up that has failed is shown, with what a path may contain escaped.
func TestPageOfLeftFiles(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 2, agents: 1, seconds: 3, config: config}.run(t)
	var out bytes.Buffer
	record(t, &out, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: &loadpb.Result{Cleanup: &loadpb.CleanupReport{LeftFiles: 3, Errors: []string{"remove <b>: permission denied"}}}}})
	run.Agents[0].Records = file(t, out.Bytes())
	got := pageOf(t, &run)
	wellFormed(t, got)
	if want := "node-1 is not cleaned up, and left 3 files: remove &lt;b&gt;: permission denied"; !strings.Contains(got, want) {
		t.Errorf("the page lacks %q", want)
	}
}

// wellFormed parses the page as XML, with the elements that HTML leaves open.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = true, []string{"meta"}, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPageStandsAlone: a page loads nothing, has no script, and shows what came from a file or an
// agent as text (L7).
func TestPageStandsAlone(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 1, seconds: 4, config: config}.run(t)
	const evil = `"><script>alert(1)</script><img src=x>`
	run.Config = append([]byte("# "+evil+"\n"), run.Config...)
	run.Reason, run.Outcome = evil, Aborted
	run.Agents[0].Info.Hostname, run.Agents[0].Info.Id = evil, evil
	run.Agents[0].Error = &loadpb.Error{Message: evil}
	got := pageOf(t, &run)
	wellFormed(t, got)
	if found := regexp.MustCompile(`(?i)<script|<img|<link|<iframe|@import|url\(| src=| href=|javascript:|https?://`).FindString(strings.ReplaceAll(got, "&lt;img src=x&gt;", "")); found != "" {
		t.Errorf("the page has %q", found)
	}
	if !strings.Contains(got, "&lt;script&gt;") {
		t.Error("the text is missing")
	}
}

// TestPageOfNothing: a run of which there is nothing has a page, too.
func TestPageOfNothing(t *testing.T) {
	t.Parallel()
	run, _ := model{seed: 1, agents: 1, seconds: 4, config: config}.run(t)
	run.Agents[0].Records, run.Outcome = "", Failed
	if got := pageOf(t, &run); strings.Contains(got, "<svg") || strings.Contains(got, "NaN") || !strings.Contains(got, "there is no result") {
		t.Error(got)
	}
}

// TestLongRun: the charts of a run of a day have few points, and keep its one slow second.
func TestLongRun(t *testing.T) {
	t.Parallel()
	series := make([]Point, 86_400)
	for i := range series {
		series[i] = Point{Start: float64(i), End: float64(i + 1), Figures: Figures{Operations: 10, OperationsPerSecond: 10, Service: Latency{Count: 10, P50: 1, P99: 2, Max: 3}}}
	}
	series[50_000].Service.P99 = 1e9
	thin, slow := thinned(series), int64(0)
	for _, p := range thin {
		slow = max(slow, p.Felt().P99)
		if p.OperationsPerSecond != 10 {
			t.Errorf("%+v", p)
		}
	}
	if len(thin) > maxPoints || slow != 1e9 || thin[len(thin)-1].End != 86_400 || series[50_000].Response != nil {
		t.Error(len(thin), slow)
	}
}
