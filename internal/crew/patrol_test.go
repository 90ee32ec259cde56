package crew

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A clock is the clocks of a machine, which a test moves.
type clock struct {
	boot       string
	mono, wall time.Duration
}

func (c *clock) pass(d time.Duration) { c.mono, c.wall = c.mono+d, c.wall+d }

// A scene is a crew with one member, auth, and a clock.
type scene struct {
	t *testing.T
	*Folder
	clock
}

func newScene(t *testing.T, events ...machine.Event) *scene {
	s := &scene{t: t, Folder: newFolder(t), clock: clock{boot: "b1", mono: time.Hour}}
	begin := time.Date(2026, 1, 10, 14, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return begin.Add(s.wall) }
	s.Clock = func() Instant { return Instant{s.boot, int64(s.mono)} }
	for _, event := range append([]machine.Event{lifecycle.MemberSpawn}, events...) {
		s.move(event)
	}
	return s
}

// move makes a move; assigning begins an epoch.
func (s *scene) move(event machine.Event) {
	s.t.Helper()
	by := &Move{Event: event, Actor: "test", Set: func(m *Member) {
		if event == lifecycle.MemberAssign {
			m.Epoch++
		}
	}}
	var err error
	if event == lifecycle.MemberSpawn {
		_, err = s.Spawn(s.t.Context(), "auth", *by)
	} else {
		_, err = s.Change(s.t.Context(), "auth", func(*Member) (*Move, error) { return by, nil })
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) beat() {
	s.t.Helper()
	before, err := s.Load("auth")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Beat("auth", before.Epoch, ""); err != nil {
		s.t.Fatal(err)
	}
	if after := check(s.t, s.Folder, "auth"); after.Version != before.Version {
		s.t.Errorf("a heartbeat made version %d", after.Version)
	}
}

// foreignBeat writes a heartbeat as a program does that knows no monotonic clock.
func (s *scene) foreignBeat(n int) {
	s.t.Helper()
	if err := os.WriteFile(s.heartbeat("auth"), fmt.Appendf(nil, `{"seq":%d,"epoch":1}`, n), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// patrol patrols, and returns the events that it has made, and the state then, with the attention.
func (s *scene) patrol() string {
	s.t.Helper()
	list, err := s.judgeBy(s.t.Context(), true, defaults)
	if err != nil {
		s.t.Fatal(err)
	}
	var words []string
	for _, one := range list {
		if !one.Done || one.Error != "" || one.Text == "" {
			s.t.Errorf("%+v", one)
		}
		words = append(words, string(one.Event))
	}
	m := check(s.t, s.Folder, "auth")
	return strings.TrimSpace(strings.Join(append(words, string(m.State), string(m.Attention)), " "))
}

func defaults(*Member) (Limits, error) { return Limits{}, nil }

func (s *scene) want(want string) {
	s.t.Helper()
	if got := s.patrol(); got != want {
		s.t.Errorf("after %v: %q, want %q", s.mono-time.Hour, got, want)
	}
}

// TestSilence: silence asks for attention after 5 min and makes stale after 15; a heartbeat takes
// both back, and without one the member fails after another 15 min (C1, C5).
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, foreign := range []bool{false, true} {
		t.Run(fmt.Sprintf("foreign=%t", foreign), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, lifecycle.MemberAssign, lifecycle.MemberStart)
			beats := 0
			beat := s.beat
			if foreign {
				beat = func() { beats++; s.foreignBeat(beats) }
			}
			beat()
			s.want("WORKING")
			s.pass(4 * time.Minute)
			s.want("WORKING")
			beat()
			s.want("WORKING")
			s.pass(5 * time.Minute)
			s.want("attention WORKING silent")
			s.pass(time.Minute)
			s.want("WORKING silent")
			beat()
			s.want("attention_cleared WORKING")
			s.pass(15 * time.Minute)
			s.want("heartbeat_timeout STALE")
			s.want("STALE")
			s.pass(time.Minute)
			beat()
			s.want("worker_recovered WORKING")
			s.pass(15 * time.Minute)
			s.want("heartbeat_timeout STALE")
			s.pass(15 * time.Minute)
			s.want("timeout_exceeded FAILED")
		})
	}
}

// TestClocks: neither a wall clock that is set nor a machine that slept or was restarted makes a
// member stale, and silence is noticed in any case (C4).
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]func(*scene){
		"an hour forwards":    func(s *scene) { s.wall += time.Hour },
		"an hour backwards":   func(s *scene) { s.wall -= time.Hour },
		"asleep for a day":    func(s *scene) { s.wall += 24 * time.Hour },
		"restarted":           func(s *scene) { s.boot, s.mono, s.wall = "b2", time.Minute, s.wall+24*time.Hour },
		"restarted, later on": func(s *scene) { s.boot, s.mono = "b2", 100*time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, lifecycle.MemberAssign, lifecycle.MemberStart)
			s.beat()
			s.pass(4 * time.Minute)
			s.want("WORKING")
			jump(s)
			s.want("WORKING")
			s.pass(15 * time.Minute)
			s.want("heartbeat_timeout STALE")
			jump(s)
			s.want("STALE")
			s.pass(time.Second)
			s.beat()
			s.want("worker_recovered WORKING")
		})
	}
}

// TestReview: reviews need no heartbeats; one is overdue after an hour and stale after two, and a
// heartbeat brings it back to where it was (C1).
func TestReview(t *testing.T) {
	t.Parallel()
	s := newScene(t, lifecycle.MemberAssign, lifecycle.MemberStart, lifecycle.MemberSubmit)
	s.pass(59 * time.Minute)
	s.beat() // it does not prolong the review
	s.want("IN_REVIEW")
	s.pass(time.Minute)
	s.want("attention IN_REVIEW review_overdue")
	s.pass(59 * time.Minute)
	s.want("IN_REVIEW review_overdue")
	s.pass(time.Minute)
	s.want("review_timeout STALE review_overdue")
	s.pass(48 * time.Hour)
	s.want("STALE review_overdue") // the work still waits for a person
	s.beat()
	s.want("resolved IN_REVIEW")
}

// TestBeatsOfAnotherEpoch: what works on an assignment that is over beats for nobody (C4).
func TestBeatsOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	s := newScene(t, lifecycle.MemberAssign, lifecycle.MemberStart)
	s.beat()
	s.move(lifecycle.MemberCancel)
	s.move(lifecycle.MemberReset)
	s.move(lifecycle.MemberAssign)
	if _, err := s.Beat("auth", 1, ""); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("a heartbeat of epoch 1: %v", err)
	}
	s.foreignBeat(7)
	s.want("ASSIGNED")
	for n := range 3 {
		s.pass(5 * time.Minute)
		s.foreignBeat(8 + n)
		if n == 2 {
			s.want("heartbeat_timeout STALE silent")
		} else {
			s.patrol()
		}
	}
}

// TestDryPatrol: without fix a patrol says what it would do, and changes nothing; two do not patrol
// at once; and a member with contradictory files is named and stays as it is (C1, C2).
func TestDryPatrol(t *testing.T) {
	t.Parallel()
	s := newScene(t, lifecycle.MemberAssign, lifecycle.MemberStart)
	s.pass(time.Hour)
	list, err := s.judgeBy(t.Context(), false, defaults)
	want := []Finding{{Member: "auth", State: lifecycle.MemberWorking, Event: lifecycle.MemberHeartbeatTimeout, Text: "no heartbeat for 1h0m0s (at most 15m0s)"}}
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if m := check(t, s.Folder, "auth"); m.State != lifecycle.MemberWorking {
		t.Errorf("it is %s", m.State)
	}
	edited := strings.Replace(string(read(t, s.state("auth"))), "WORKING", "APPROVED", 1)
	if err := os.WriteFile(s.state("auth"), []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err = s.judgeBy(t.Context(), true, defaults)
	if err != nil || len(list) != 1 || list[0].Done || !strings.Contains(list[0].Error, "version 3 and state APPROVED") {
		t.Errorf("%+v, %v", list, err)
	}
	if got := string(read(t, s.state("auth"))); got != edited {
		t.Error("the edited state was replaced")
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLocksOfARun: a runner is alive while its process is, even stopped, and dead at once when it
// is killed, even as a zombie; what it has started counts by itself (C5).
func TestLocksOfARun(t *testing.T) {
	t.Parallel()
	s := newScene(t, lifecycle.MemberAssign, lifecycle.MemberStart)
	dir := s.runDir("auth", 1)
	if err := s.Disk.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	// The runner holds its own lock, and passes the one of the tree on.
	runner := exec.Command("sh", "-c", `exec 8>"$1/runner.lock" 9>"$1/tree.lock"; flock 8; flock 9
sleep 1000 8>&- & echo $!; kill -STOP $$; while :; do sleep 1000 8>&- 9>&- & wait; done`, "sh", dir)
	out, err := runner.StdoutPipe()
	if err == nil {
		err = runner.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	look := func(want Run) {
		t.Helper()
		if got, err := s.RunOf("auth", 1); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	look(Run{}) // not said to be launched
	if err := os.WriteFile(filepath.Join(dir, runFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	look(Run{Launched: true, Alive: true, Tree: true})
	s.pass(24 * time.Hour)
	s.want("attention WORKING silent") // stopped, perhaps, but not dead
	if err := runner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { r, err := s.RunOf("auth", 1); return err != nil || !r.Alive }) // a zombie: nobody has waited for it
	look(Run{Launched: true, Tree: true})
	s.want("died STALE silent")
	s.beat() // of a child that does not know
	s.want("STALE silent")
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { r, err := s.RunOf("auth", 1); return err != nil || !r.Tree })
	look(Run{Launched: true})
	_ = runner.Wait()
}

// wait waits for what another process does.
func wait(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it takes more than a minute")
		}
	}
}
