package results_test

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/results"
	"github.com/pawl-dev/pawl/internal/load/results/resultstest"
)

// childDir is the folder in which this program keeps the journal of a run until it is killed.
const childDir = "PAWL_RESULTS_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child keeps the journal of a run that is on.
func child(dir string) int {
	test := &testing.T{} // it fails the child by its exit
	j := resultstest.Journal(test, dir, "dead", 7, resultstest.File)
	j.Changed(resultstest.View(7, controller.Running))
	for s := range 3 {
		j.Interval(resultstest.Second(s))
	}
	resultstest.Record(test, j, filepath.Join(dir, "records"), 1, 0, 3)
	fmt.Println("begun")
	select {}
}

func opened(t *testing.T, dir string) *results.Folder {
	t.Helper()
	f, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// listed returns the runs of a folder in short.
func listed(t *testing.T, f *results.Folder) (all []string) {
	t.Helper()
	list, err := f.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s %s", r.Name, r.State, r.Reason), " "))
	}
	return all
}

// TestFolder: runs are listed, newest first, what is none is ignored, and one that cannot be read has the
// reason. What changes is read anew, and nothing outside of the folder ever is (L7).
func TestFolder(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, outside := filepath.Join(base, "runs"), filepath.Join(base, "outside")
	for _, d := range []string{filepath.Join(dir, "empty"), outside} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	resultstest.Write(t, outside, "secret", 3, 1, resultstest.File)
	resultstest.Write(t, dir, "monday", 1, 3, resultstest.File)
	resultstest.Write(t, dir, "tuesday", 2, 3, resultstest.File)
	for link, to := range map[string]string{"link": filepath.Join(outside, "secret"), "inner": "monday"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := opened(t, dir)
	if diff := cmp.Diff([]string{"tuesday completed", "monday completed"}, listed(t, f)); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"", ".", "..", "../outside/secret", "link", "inner", "empty", "none", "a/b", "monday/agents", `a\b`, ".monday.live", "a\x00b", strings.Repeat("x", 5000)} {
		if _, err := f.Run(name); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("run %.20q: %v", name, err)
		}
		if _, err := f.Report(name); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("report %.20q: %v", name, err)
		}
		if _, err := f.Config(name); pawl.KindOf(err) != pawl.NotFound && name != "inner" {
			t.Errorf("config %.20q: %v", name, err)
		}
		if _, err := f.Abort(name, journal.Request{}); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("abort %.20q: %v", name, err)
		}
	}

	// a link within a result leads out, too
	config := filepath.Join(dir, "monday", "config.yaml")
	if err := errors.Join(os.Remove(config), os.Symlink(filepath.Join(outside, "secret", "config.yaml"), config)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Report("monday"); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("a report with a link: %v", err)
	}
	if b, err := f.Config("monday"); err == nil {
		t.Errorf("a link is followed: %q", b)
	}

	summary := filepath.Join(dir, "tuesday", "summary.json")
	if err := errors.Join(os.WriteFile(summary, []byte(`{"schema":2}`), 0o600), os.Chtimes(summary, time.Time{}, resultstest.Start)); err != nil {
		t.Fatal(err)
	}
	j := resultstest.Journal(t, dir, "now", 4, resultstest.File)
	j.Changed(resultstest.View(4, controller.Running))
	for r, err := f.Run("now"); r.State != results.Running; r, err = f.Run("now") { // its line is written by and by
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"now running", "monday completed", "tuesday damaged " + filepath.Join("tuesday", "summary.json") + " is of schema 2; this program reads schema 1"}
	if diff := cmp.Diff(want, listed(t, f)); diff != "" {
		t.Error(diff)
	}
	live := filepath.Join(dir, journal.NameOf("now"))
	if err := os.Symlink(filepath.Join(outside, "abort"), filepath.Join(live, "abort.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Abort("now", journal.Request{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "abort")); err == nil {
		t.Error("a request was written outside of the folder")
	}
	if err := errors.Join(j.Close(), os.RemoveAll(filepath.Join(dir, "tuesday"))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"monday completed"}, listed(t, f)); diff != "" {
		t.Error(diff)
	}
}

// TestKilledController: a run whose controller was killed is lost, and not on for ever; what it had
// written is shown, and nobody can end it (L7).
func TestKilledController(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), childDir+"="+dir), os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	f := opened(t, dir)
	last := func() results.Run {
		t.Helper()
		for { // its lines are written by and by
			r, err := f.Run("dead")
			if err != nil {
				t.Fatal(err)
			}
			if r.Seconds == 3 {
				return r
			}
		}
	}
	if r := last(); r.State != results.Running || r.Total.Operations != 2 || r.Agents != 2 || r.ID != resultstest.ID(7) {
		t.Errorf("before: %+v", r)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()  // it was killed
	for range 2 { // read, and remembered
		if r := last(); r.State != results.Lost || r.Reason == "" || r.Heard.IsZero() {
			t.Errorf("after: %+v", r)
		}
	}
	if a, err := f.Agents("dead"); err != nil || len(a) != 2 || *a[1].SkewLast != 2000 || *a[1].Bound != 40_000 {
		t.Errorf("its agents: %+v, %v", a, err)
	}
	if i, next, err := intervalsOf(t, f, "dead", results.Query{From: 1, Limit: 9}); err != nil || next != 0 || len(i) != 2 || i[0].Start != 1 {
		t.Errorf("its intervals: %+v, %d, %v", i, next, err)
	}
	records := filepath.Join(dir, "records") // which the next run sweeps, unlike the journal
	if err := errors.Join(torn(records), os.Remove(records)); err != nil {
		t.Fatal(err)
	}
	if i, next, err := intervalsOf(t, f, "dead", results.Query{Agent: "node-2", From: 1, Limit: 9}); err != nil || next != 0 || len(i) != 2 || i[1].Start != 2 || i[1].Figures.Operations != 1 {
		t.Errorf("the intervals of an agent: %+v, %d, %v", i, next, err)
	}
	_, refused := f.Abort("dead", journal.Request{Actor: "ada"})
	for name, err := range map[string]error{"abort": refused, "report": reportOf(f, "dead")} {
		if pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// torn adds the beginning of a record to a file.
func torn(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte{200, 1, 10})
	return errors.Join(err, f.Close())
}

// TestAnotherRun: a run that takes the name of one that was lost, or has never begun, is on.
func TestAnotherRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := opened(t, dir)
	for n := range 5 {
		j := resultstest.Journal(t, dir, "a", n, resultstest.File)
		if r, err := f.Run("a"); err != nil || r.State != results.Connecting || r.ID != resultstest.ID(n) {
			t.Errorf("run %d: %+v, %v", n, r, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := listed(t, f); got != nil {
		t.Errorf("what has never begun is left: %v", got)
	}
}

// TestWithoutResult: a run whose result could not be written is lost, though its controller has said how it
// has ended, and what was measured is shown; one that somebody ended before it had begun is aborted (L7, L11).
func TestWithoutResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := opened(t, dir)
	for n, name := range []string{"full", "early", "never"} {
		j := resultstest.Journal(t, dir, name, n, resultstest.File)
		run := &report.Run{ID: resultstest.ID(n), Outcome: report.Aborted, Reason: "aborted by ada", Ended: resultstest.Start}
		switch name {
		case "full":
			run.Outcome, run.Reason, run.Started = report.Completed, "", resultstest.Start
			j.Changed(resultstest.View(n, controller.Running))
			j.Interval(resultstest.Second(0))
		case "early":
			if _, err := f.Abort(name, journal.Request{Actor: "ada"}); err != nil {
				t.Fatal(err)
			}
			j.Changed(resultstest.View(n, controller.Connecting))
		}
		j.Ended(run)
		j.Kept(run, "")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // read, and remembered
		want := []string{"early aborted aborted by ada", "full lost it has no result: its controller could not write one"}
		if diff := cmp.Diff(want, listed(t, f)); diff != "" {
			t.Error(diff)
		}
	}
	if i, _, err := intervalsOf(t, f, "full", results.Query{Limit: 9}); err != nil || len(i) != 1 {
		t.Errorf("intervals: %v, %v", i, err)
	}
	if r, err := f.Run("early"); err != nil || r.Requested == nil || r.Requested.Actor != "ada" || r.Ended.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	var events []string
	if err := f.History(t.Context(), "early", func(e *audit.Entry) error {
		events = append(events, string(e.Event)+" by "+e.Actor)
		return nil
	}); err != nil || !cmp.Equal(events, []string{"begin by ann", "abort by ada", "ended_aborted by ann"}) {
		t.Errorf("%v, %v", events, err)
	}
	for _, name := range []string{"full", "early"} {
		if err := reportOf(f, name); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("the report of %s: %v", name, err)
		}
		if _, err := f.Abort(name, journal.Request{Actor: "ada"}); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("the abort of %s: %v", name, err)
		}
	}
}

// TestPipes: what is no regular file is damage, and holds up nobody.
func TestPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	resultstest.Write(t, dir, "a", 1, 1, resultstest.File)
	f := opened(t, dir)
	for _, tt := range []struct {
		file string
		read func() error
	}{
		{"intervals.tsv", func() error { _, _, err := intervalsOf(t, f, "a", results.Query{Limit: 1}); return err }},
		{"trail.jsonl", func() error { return f.History(t.Context(), "a", nil) }},
		{"agents/node-1/result.pb", func() error { return reportOf(f, "a") }},
		{"config.yaml", func() error {
			return errors.Join(reportOf(f, "a"), func() error { _, err := f.Config("a"); return err }())
		}},
		{"summary.json", func() error {
			if r, err := f.Run("a"); r.State != results.Damaged {
				return err
			}
			return errors.New("damaged")
		}},
	} {
		path := filepath.Join(dir, "a", tt.file)
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)); err != nil {
			t.Fatal(err)
		}
		if err := tt.read(); err == nil {
			t.Errorf("%s is a pipe, and is read", tt.file)
		}
	}
}

// BenchmarkList lists a folder with many results, of which none has changed.
func BenchmarkList(b *testing.B) {
	dir := b.TempDir()
	for n := range 200 {
		resultstest.Write(b, dir, fmt.Sprint("run-", n), n%100, 1, resultstest.File)
	}
	f, err := results.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if all, err := f.List(b.Context()); err != nil || len(all) != 200 {
			b.Fatal(len(all), err)
		}
	}
}

// intervalsOf returns intervals of the run as it is now.
func intervalsOf(t *testing.T, f *results.Folder, name string, q results.Query) ([]results.Interval, int64, error) {
	t.Helper()
	r, err := f.Run(name)
	if err != nil {
		t.Fatal(err)
	}
	return f.Intervals(t.Context(), &r, q)
}

func reportOf(f *results.Folder, name string) error {
	_, err := f.Report(name)
	return err
}

// TestIntervals: pages of the intervals of a result and of a journal are the same as all at once, and
// agree with the report (L7).
func TestIntervals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	resultstest.Write(t, dir, "a", 1, 5, resultstest.File)
	j := resultstest.Journal(t, dir, "b", 2, resultstest.File)
	defer j.Close()
	j.Changed(resultstest.View(2, controller.Running))
	for s := range 5 {
		j.Interval(resultstest.Second(s))
	}
	records := filepath.Join(dir, "records")
	resultstest.Record(t, j, records, 1, 0, 5)
	f := opened(t, dir)
	for r, err := f.Run("b"); r.Seconds < 5; r, err = f.Run("b") { // its lines are written by and by
		if err != nil {
			t.Fatal(err)
		}
	}
	rep, err := f.Report("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		run     string
		q       results.Query
		seconds int
	}{
		{"a", results.Query{}, 5}, {"b", results.Query{}, 5}, {"a", results.Query{From: 1, To: 3}, 2}, {"b", results.Query{From: 1, To: 3}, 2},
		{"a", results.Query{Operation: "read"}, 5}, {"b", results.Query{Operation: "read"}, 5}, {"a", results.Query{Operation: "write"}, 0}, {"b", results.Query{Operation: "write"}, 0},
		{"a", results.Query{Agent: "node-2"}, 5}, {"b", results.Query{Agent: "node-2"}, 5}, {"b", results.Query{Agent: "node-2", From: 1, To: 3}, 2}, {"b", results.Query{Agent: "node-1"}, 0},
	} {
		tt.q.Limit = 2
		var got []results.Interval
		for {
			page, next, err := intervalsOf(t, f, tt.run, tt.q)
			if err != nil {
				t.Fatal(tt, err)
			}
			got = append(got, page...)
			if tt.q.After = next; next == 0 {
				break
			}
		}
		tt.q.Limit, tt.q.After = 100, 0
		whole, next, err := intervalsOf(t, f, tt.run, tt.q)
		if err != nil || next != 0 || len(whole) != tt.seconds {
			t.Errorf("%+v: %d intervals, next %d, %v", tt, len(whole), next, err)
		}
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Errorf("%+v: %s", tt, diff)
		}
		for i, one := range got {
			operations, p := uint64(2), rep.Series[i+int(tt.q.From)]
			if tt.q.Agent != "" {
				operations = 1
			}
			if tt.q.Agent == "" && math.Abs(one.Figures.BytesPerSecond-p.BytesPerSecond) > 1 {
				t.Errorf("%+v: interval %d has %v B/s, want %v", tt, i, one.Figures.BytesPerSecond, p.BytesPerSecond)
			}
			if one.Figures.Operations != operations || one.Start != p.Start || one.End != p.End || one.Figures.Service.P99 != p.Service.P99 || one.Figures.Bytes != operations*4096 {
				t.Errorf("%+v: interval %d is %+v, want %+v", tt, i, one, p)
			}
		}
	}
	for _, run := range []string{"a", "b"} {
		if _, _, err := intervalsOf(t, f, run, results.Query{Agent: "none", Limit: 1}); pawl.KindOf(err) != pawl.Invalid || !strings.HasSuffix(err.Error(), "want one of node-1, node-2") {
			t.Errorf("an agent that %s has not: %v", run, err)
		}
	}
	agents := filepath.Join(dir, journal.NameOf("b"), "agents")
	if err := os.WriteFile(filepath.Join(agents, "0.pb"), []byte("\x04damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if i, _, err := intervalsOf(t, f, "b", results.Query{Agent: "node-1", Limit: 1}); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("damaged intervals of an agent: %v, %v", i, err)
	}
	if err := os.RemoveAll(agents); err != nil { // as an older program has left it
		t.Fatal(err)
	}
	if _, _, err := intervalsOf(t, f, "b", results.Query{Agent: "node-1", Limit: 1}); pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "before the run has a result") {
		t.Errorf("a journal of an older program: %v", err)
	}
	for _, at := range []int64{1, 1 << 40} {
		for _, run := range []string{"a", "b"} {
			if _, _, err := intervalsOf(t, f, run, results.Query{After: at, Limit: 1}); pawl.KindOf(err) != pawl.Invalid {
				t.Errorf("%s after %d: %v", run, at, err)
			}
		}
	}
	path := filepath.Join(dir, "a", "intervals.tsv")
	for _, damage := range []string{"start_s\tend_s\n1\n", "start_s\n1\n", "", "start_s\tno end of line"} {
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if i, _, err := intervalsOf(t, f, "a", results.Query{Limit: 9}); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("%q: %v, %v", damage, i, err)
		}
	}
}

// TestMiddle: a place within a record of the same agent is none, neither of a page nor of what is followed, whatever the
// bytes there look like (L7).
func TestMiddle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := resultstest.Journal(t, dir, "a", 1, resultstest.File)
	defer j.Close()
	j.Changed(resultstest.View(1, controller.Running))
	resultstest.Record(t, j, filepath.Join(dir, "records"), 1, 0, 4)
	f := opened(t, dir)
	for r, err := f.Run("a"); r.State != results.Running; r, err = f.Run("a") { // its line is written by and by
		if err != nil {
			t.Fatal(err)
		}
	}
	_, to, err := f.Follow("a", "node-2")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	p, err := to.Next()
	if err != nil {
		t.Fatal(err)
	}
	ends := map[int64]bool{}
	for _, l := range p.Lines {
		var lines, agent, at int64
		if n, _ := fmt.Sscanf(l.Place, "%d-%d-%d", &lines, &agent, &at); n == 3 && l.Type == journal.TypeInterval {
			ends[at] = true
		}
	}
	if len(ends) != 4 {
		t.Fatalf("%d intervals: %+v", len(ends), p)
	}
	for at := range slices.Max(slices.Collect(maps.Keys(ends))) + 3 {
		if at == 0 {
			continue
		}
		want := pawl.Invalid
		_, _, err := intervalsOf(t, f, "a", results.Query{Agent: "node-2", After: at, Limit: 9})
		if (err == nil) != ends[at] || err != nil && pawl.KindOf(err) != want {
			t.Errorf("a page after %d: %v", at, err)
		}
		if err := to.From(fmt.Sprintf("0-1-%d", at)); (err == nil) != ends[at] || err != nil && pawl.KindOf(err) != want {
			t.Errorf("following after %d: %v", at, err)
		}
	}
}

// TestHistory: the trail of a run is that of its load and of its agents; a torn last row is none, and
// one that is damaged in the middle is an error (L11).
func TestHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	resultstest.Write(t, dir, "a", 1, 1, resultstest.File)
	f := opened(t, dir)
	read := func() (rows []string, err error) {
		return rows, f.History(t.Context(), "a", func(e *audit.Entry) error {
			rows = append(rows, strings.ReplaceAll(e.Entity, resultstest.ID(1), "R")+" "+string(e.Event))
			return nil
		})
	}
	want := []string{"lr_R begin", "ag_R.0 connect", "ag_R.0 config", "ag_R.1 connect", "ag_R.1 config"}
	rows, err := read()
	if diff := cmp.Diff(want, rows); diff != "" || err != nil {
		t.Error(diff, err)
	}
	path := filepath.Join(dir, "a", "trail.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, kind := range map[string]error{string(whole) + `{"entity`: nil, "{}\n" + string(whole): pawl.Errorf(pawl.Conflict, "")} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(); (err == nil) != (kind == nil) || err != nil && pawl.KindOf(err) != pawl.KindOf(kind) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
