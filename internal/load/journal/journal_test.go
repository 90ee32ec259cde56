package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/durable"
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

// events returns the events of the rows of a trail, which verifies.
func events(t *testing.T, trail []byte) (all []string) {
	t.Helper()
	for _, row := range rows(t, trail) {
		all = append(all, strings.Fields(row)[1])
	}
	return all
}

// TestWhatIsKept: a journal goes when the result is there, and when there is nothing to keep. It stays if it
// is all that is known: the result could not be written, or somebody has ended a run that had not begun
// (L7, L11).
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		begun   bool
		folder  bool
		asked   bool
		outcome string
		kept    bool
	}{
		{"a result", true, true, false, report.Completed, false},
		{"a result of a run that was ended", true, true, true, report.Aborted, false},
		{"no room for the result", true, false, false, report.Completed, true},
		{"it has not begun", false, false, false, report.Failed, false},
		{"it was ended before it had begun", false, false, true, report.Aborted, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "result")
			j, err := open(dir)
			if err != nil {
				t.Fatal(err)
			}
			r := reader(t, dir)
			j.Changed(view(controller.Connecting))
			if tt.asked {
				if err := r.Abort(Request{Actor: "ada"}); err != nil {
					t.Fatal(err)
				}
				<-j.Abort()
			}
			run := &report.Run{ID: runID, Outcome: tt.outcome, Reason: "so"}
			folder := ""
			if tt.begun {
				run.Started = time.Now()
			}
			if tt.folder {
				folder = dir
			}
			if tt.outcome == report.Completed {
				for _, p := range []controller.Phase{controller.Preparing, controller.Starting, controller.Running} {
					j.Changed(view(p))
				}
			}
			j.Ended(run)
			j.Kept(run, folder)
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			_, err = os.Stat(j.Path())
			if kept := err == nil; kept != tt.kept {
				t.Errorf("kept: %t, want %t", kept, tt.kept)
			}
			if e := state(t, r).Ended(); r.Alive() || e == nil || e.Outcome != tt.outcome || e.Folder != filepath.Base(folder) && folder != "" {
				t.Errorf("the end is %+v", e)
			}
			if !tt.kept {
				return
			}
			trail, err := os.ReadFile(filepath.Join(j.Path(), trailName))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rows(t, run.Trail), rows(t, trail)); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(events(t, trail), " "); tt.asked && (got != "begin abort ended_aborted" || !strings.Contains(string(trail), `"ada"`)) {
				t.Errorf("the trail is %s", trail)
			}
		})
	}
}

// TestWithoutJournal: a run does without a journal that cannot be written, and its result has the trail.
func TestWithoutJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 252)) // no room for the name of its journal
	j, err := open(dir)
	if err != nil || j.Unwritten == nil || j.Path() != "" {
		t.Fatalf("%v, %v in %q", err, j.Unwritten, j.Path())
	}
	j.Changed(view(controller.Connecting))
	j.Interval(interval(0))
	run := &report.Run{ID: runID, Outcome: report.Failed, Started: time.Now()}
	j.Ended(run)
	j.Kept(run, "")
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"begin", "fail", "ended_failed"}, events(t, run.Trail)); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLeftBehind: what killed controllers have left is removed, if nothing is lost with it: folders that
// were to become journals, and journals of runs whose results are there.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	result, other := filepath.Join(parent, "result"), filepath.Join(parent, "other")
	for _, dir := range []string{result, other} {
		j, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		j.owed = true
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir, id := range map[string]string{result: runID, other: "another"} {
		if err := os.WriteFile(filepath.Join(dir, "summary.json"), []byte(`{"run_id":"`+id+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scratch, err := durable.NewScratch(parent, workPattern)
	if err != nil {
		t.Fatal(err)
	}
	work := scratch.Path
	scratch.Leave()
	j, err := open(filepath.Join(parent, "next"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for path, want := range map[string]bool{work: false, filepath.Join(parent, NameOf("result")): false, filepath.Join(parent, NameOf("other")): true, j.Path(): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", path, !want, want)
		}
	}
}

// TestMoves: a move of an agent that is not legal is no row and is logged once, and what comes after it is
// one again. An agent that reports moves without end gets only so many rows (L11).
func TestMoves(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	var logged strings.Builder
	tr := newTrail(runID, "ann", &file, slog.New(slog.NewTextHandler(&logged, nil)))
	sequence := int64(0)
	move := func(agent int, event string) {
		sequence++
		tr.moved(agent, &loadpb.Transition{Event: event, Sequence: sequence})
	}
	for _, event := range []string{"connect", "start", "leap", "config", "prepare_complete"} {
		move(0, event)
	}
	if diff := cmp.Diff([]string{"connect", "config", "prepare_complete"}, events(t, tr.rows)); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(logged.String(), "level=WARN"); n != 1 || !strings.Contains(logged.String(), "sequence=2 event=start") {
		t.Errorf("%d warnings: %s", n, logged.String())
	}
	sequence = 0
	for range 10 * maxMoves {
		move(1, map[bool]string{true: "connect", false: "ping"}[sequence == 0])
	}
	if n := len(events(t, tr.rows)); n != 3+maxMoves {
		t.Errorf("%d rows, want %d", n, 3+maxMoves)
	}
	if n := strings.Count(logged.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings: %s", n, logged.String())
	}
	if err := tr.lines.Close(); err != nil || !bytes.Equal(file.Bytes(), tr.rows) {
		t.Errorf("the file has %d bytes of %d, %v", file.Len(), len(tr.rows), err)
	}
}

// TestForcedEnd: the trail of a run that was forced to end has its end, whatever phase it was in.
func TestForcedEnd(t *testing.T) {
	t.Parallel()
	tr := newTrail(runID, "ann", io.Discard, slog.New(slog.DiscardHandler))
	for _, p := range []controller.Phase{controller.Connecting, controller.Preparing, controller.Starting, controller.Running} {
		tr.changed(view(p), nil)
	}
	tr.ended(&report.Run{Outcome: report.Aborted, Reason: "forced to end by user"}, nil)
	if diff := cmp.Diff([]string{"begin", "agents_connected", "agents_ready", "start", "abort", "ended_aborted"}, events(t, tr.rows)); diff != "" {
		t.Error(diff)
	}
	if err := tr.lines.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnreadableRequest: a request that cannot be read is logged, and not again and again.
func TestUnreadableRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "result")
		j, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		close(j.stop)
		j.wg.Wait()
		var logged strings.Builder
		j.stop, j.Log = make(chan struct{}), slog.New(slog.NewTextHandler(&logged, nil))
		path := filepath.Join(j.Path(), abortFile)
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		j.wg.Go(j.watch)
		time.Sleep(4 * abortEvery)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(logged.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings: %s", n, logged.String())
		}
	})
}

// TestPipes: what is no regular file is not opened, which could wait for ever.
func TestPipes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "result")
	j, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{abortFile, runFile, lockFile, liveFile} {
		path := filepath.Join(j.Path(), name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := OpenReader(root, NameOf("result"))
		if opened := err == nil; opened != (name == abortFile || name == runFile) {
			t.Errorf("%s is a pipe: %v", name, err)
		}
		if r == nil {
			continue
		}
		if _, err := r.Info(); (err == nil) != (name == abortFile) || r.Requested() != nil {
			t.Errorf("%s is a pipe: %v", name, err)
		}
		_ = r.Close() // it was only read
	}
}

// TestBound: what goes beyond the bound is left out but for changes of state, of which the next says so.
func TestBound(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := &bounded{to: &out, most: 40}
	for _, line := range []string{`{"type":"interval","n":1}`, `{"type":"interval","n":2}`, `{"type":"progress"}`, `{"type":"agent"}`, `{"type":"interval","n":3}`, `{"type":"end"}`} {
		if _, err := io.WriteString(b, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	at := regexp.MustCompile(`"at":"[^"]*",`)
	want := `{"type":"interval","n":1}` + "\n" + `{"type":"left_out","lines":2}` + "\n" + `{"type":"agent"}` + "\n" + `{"type":"left_out","lines":1}` + "\n" + `{"type":"end"}` + "\n"
	if diff := cmp.Diff(want, at.ReplaceAllString(out.String(), "")); diff != "" {
		t.Error(diff)
	}
}
