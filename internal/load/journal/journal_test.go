package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

const (
	runID = "01J00000000000000000000000"
	file  = "name: small\nfiles: [{name: d}]\nmix: [{operation: mkdir}]\n"

	// childDir is the folder of a result whose journal this program keeps until it is killed.
	childDir = "PAWL_JOURNAL_CHILD"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child keeps a journal, says when two intervals are in it, and waits to be killed.
func child(dir string) int {
	j, err := open(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	j.Changed(view(controller.Connecting))
	for n := range 2 {
		j.Interval(interval(n))
	}
	_ = j.feed.Lines.Close() // all is written
	_ = j.trail.lines.Close()
	fmt.Println("written")
	select {}
}

func open(dir string) (*Journal, error) {
	test, err := spec.Parse([]byte(file))
	if err != nil {
		return nil, err
	}
	return Open(Config{Dir: dir, Info: Info{Run: runID, Actor: "ann"}, Config: []byte(file), Test: test})
}

func view(p controller.Phase) controller.View {
	return controller.View{ID: runID, Phase: p, Agents: []controller.AgentView{{Name: "agent a", Address: "a:1"}, {Index: 1, Name: "agent b", Address: "b:1"}}}
}

func interval(n int) controller.Interval {
	return controller.Interval{Start: time.Duration(n) * time.Second, End: time.Duration(n+1) * time.Second, Agents: 2,
		Operations: stats.Table{{Operation: "mkdir"}: {Operations: 7}}}
}

// reader opens the journal of a result.
func reader(t *testing.T, dir string) *Reader {
	t.Helper()
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r, err := OpenReader(root, NameOf(filepath.Base(dir)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// state reads all lines.
func state(t *testing.T, r *Reader) *State {
	t.Helper()
	s := &State{}
	if err := r.Read(s.Take); err != nil {
		t.Fatal(err)
	}
	return s
}

// rows returns the rows of a trail, which verifies.
func rows(t *testing.T, trail []byte) (all []string) {
	t.Helper()
	if _, err := audit.VerifyLines(bytes.NewReader(trail)); err != nil {
		t.Fatalf("%v\n%s", err, trail)
	}
	for line := range bytes.Lines(trail) {
		var e audit.Entry
		if err := e.UnmarshalJSON(line); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s %s by %s: %s", strings.ReplaceAll(e.Entity, runID, "R"), e.Event, e.To, e.Actor, e.Reason), ": "))
	}
	return all
}

// TestJournal: who follows a run sees each phase, agent and interval, and its end; a request to end it
// arrives, with who has made it; and the trail of the load and of its agents verifies (L7, L11).
func TestJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "result")
	j, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var refused *pawl.Error
	if _, err := open(dir); !errors.As(err, &refused) || refused.Kind != pawl.Conflict || !strings.Contains(refused.Message, "a run that is on") {
		t.Errorf("a second journal: %v", err)
	}
	for _, p := range []controller.Phase{controller.Connecting, controller.Preparing, controller.Starting, controller.Running} {
		j.Changed(view(p))
	}
	j.Moved(0, &loadpb.Transition{Event: "connect", To: "IDLE", Sequence: 1})
	j.Moved(1, &loadpb.Transition{Event: "connect", To: "IDLE", Sequence: 1})
	j.Moved(1, &loadpb.Transition{Event: "start", To: "RUNNING", Sequence: 2}) // which is not legal
	j.Moved(0, &loadpb.Transition{Event: "config", To: "CONFIG_RECEIVED", Sequence: 2})
	j.Interval(interval(0))

	r := reader(t, dir)
	for i, actor := range []string{"ada", "bob"} {
		if err := r.Abort(Request{Actor: actor, Reason: "too slow"}); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	select {
	case why := <-j.Abort():
		if why != "by ada: too slow" {
			t.Errorf("the run ends %q", why)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the request does not arrive")
	}
	ending := view(controller.Ending)
	ending.Outcome, ending.Reason = report.Aborted, "aborted by ada: too slow"
	ending.Agents[1].Failure = &loadpb.Error{Message: "lost"}
	j.Changed(ending)
	run := &report.Run{ID: runID, Outcome: report.Aborted, Reason: ending.Reason}
	j.Ended(run)
	j.Kept(run, dir)
	if !r.Alive() {
		t.Error("the controller is dead before it has ended")
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}

	s := state(t, r) // the files are open, though they are gone
	if r.Alive() {
		t.Error("the controller is alive after its end")
	}
	if e := s.Ended(); e == nil || e.Outcome != report.Aborted || e.Folder != "result" {
		t.Errorf("the end is %+v", e)
	}
	if p := s.Phase(); p.Phase != controller.Ending || p.Run != runID || p.Agents != 2 {
		t.Errorf("the phase is %+v", p)
	}
	if a := s.Agents(); len(a) != 2 || a[0].Status != "connecting" || a[1].Status != "lost" {
		t.Errorf("the agents are %+v", a)
	}
	if i := s.Last(); i == nil || i.Total.Operations != 7 {
		t.Errorf("the last interval is %+v", i)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	want := []string{
		"lr_R begin CONNECTING by ann", "lr_R agents_connected PREPARING by ann", "lr_R agents_ready STARTING by ann", "lr_R start RUNNING by ann",
		"ag_R.0 connect IDLE by agent:0", "ag_R.1 connect IDLE by agent:1", "ag_R.0 config CONFIG_RECEIVED by agent:0",
		"lr_R abort ENDING by ada: too slow", "lr_R agent_failed ENDING by ann: agent b: lost", "lr_R ended_aborted ABORTED by ann: aborted by ada: too slow",
	}
	if diff := cmp.Diff(want, rows(t, run.Trail)); diff != "" {
		t.Error(diff)
	}
}

// TestKilledController: what a controller had written when it was killed is there, but for a torn line,
// and it is known to be dead. Its result cannot be written over what is left by mistake (L7).
func TestKilledController(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "result")
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), childDir+"="+dir), os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "written\n" {
		t.Fatal(line, err)
	}
	r := reader(t, dir)
	if !r.Alive() {
		t.Error("the controller is dead before it was killed")
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	if r.Alive() {
		t.Error("a killed controller is alive")
	}
	path := filepath.Join(filepath.Dir(dir), NameOf("result"))
	live := filepath.Join(path, liveFile)
	whole, err := os.ReadFile(live)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(live, append(whole, `{"type":"interval","at`...), 0o600); err != nil {
		t.Fatal(err)
	}
	s := state(t, r)
	if i := s.Last(); i == nil || i.End != 2 || s.Phase().Phase != controller.Connecting || s.Ended() != nil {
		t.Errorf("the last interval is %+v, of %+v", s.Last(), s.Phase())
	}
	trail, err := os.ReadFile(filepath.Join(path, trailName))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lr_R begin CONNECTING by ann"}, rows(t, trail)); diff != "" {
		t.Error(diff)
	}
	var refused *pawl.Error
	if _, err := open(dir); !errors.As(err, &refused) || refused.Kind != pawl.Conflict || !strings.Contains(refused.Hint, path) {
		t.Errorf("another run: %v", err)
	}
}

// TestReadOn: a reader goes on at the place behind a line, with lines that come later and are longer
// than what it reads at once; other places are refused.
func TestReadOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "result")
	j, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r := reader(t, dir)
	var places []int64
	read := func() (types []string) {
		if err := r.Read(func(l Line) error { places, types = append(places, l.Next), append(types, l.Type); return nil }); err != nil {
			t.Fatal(err)
		}
		return types
	}
	if got := read(); got != nil {
		t.Errorf("an empty journal has %v", got)
	}
	text := `{"type":"run"}` + "\n" + `{"type":"agent","error":"` + strings.Repeat("x", 3*piece) + `"}` + "\n" + `garbage` + "\n" + `{"type":"end"}` + "\n"
	half := len(text) / 2
	for i, part := range []string{text[:half], text[half:]} {
		if _, err := j.live.WriteString(part); err != nil {
			t.Fatal(err)
		}
		if got, want := read(), [][]string{{"run"}, {"agent", "end"}}[i]; !cmp.Equal(got, want) {
			t.Errorf("part %d has %v, want %v", i, got, want)
		}
	}
	for _, at := range []int64{-1, 3, int64(len(text)) + 1} {
		if err := r.From(at); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("from %d: %v", at, err)
		}
	}
	if err := r.From(places[0]); err != nil {
		t.Fatal(err)
	}
	if got := read(); !cmp.Equal(got, []string{"agent", "end"}) {
		t.Errorf("again from the first line on: %v", got)
	}
}
