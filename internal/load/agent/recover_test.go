package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/workload"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var (
	untilRunning = []machine.Event{lifecycle.Agent.Create, lifecycle.AgentConfig, lifecycle.AgentPrepareComplete, lifecycle.AgentStartAccepted, lifecycle.AgentStart}
	untilEnd     = append(untilRunning[:len(untilRunning):len(untilRunning)], lifecycle.AgentFinish)
)

// killed leaves what an agent leaves that was killed after these events and three intervals, of
// which the first is of the warm-up.
func (b *bench) killed(events []machine.Event, reason string) *recording {
	b.Helper()
	t, err := openTrail(b.agent.trails(), runID, "test")
	for _, e := range events {
		if err == nil {
			_, err = t.move(e, reason, "", b.agent.now())
		}
	}
	if err == nil {
		err = b.agent.keep(workload.Job{Config: config, RunID: runID, AgentCount: 1, Root: b.agent.config.Roots[0].Path, Manifest: b.agent.manifest(runID)})
	}
	if err != nil {
		b.Fatal(err)
	}
	r, err := b.agent.record(runID)
	for n := range 3 {
		i := interval(n)
		i.Warmup, i.CpuUserSeconds = n == 0, 0.5
		if err == nil {
			err = r.add(i)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// mended starts the agent again, as far as its state folder is concerned.
func (b *bench) mended() {
	b.Helper()
	if err := b.agent.mend(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// kept reports whether the job of the run is there for the next start.
func (b *bench) kept() bool {
	_, err := os.Stat(b.agent.jobFile(runID))
	return err == nil
}

// The result of a run whose agent was killed has what was measured, and an error only if the run has one.
func TestLostResult(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		events []machine.Event
		reason string
		status loadpb.Status
		code   loadpb.ErrorCode
		abort  string
	}{
		"while it was on":      {untilRunning, "", statusError, codeLost, ""},
		"after it had ended":   {untilEnd, "", statusCompleted, 0, ""},
		"after it was aborted": {append(untilRunning[:3:3], lifecycle.AgentAbort), "enough", statusAborted, 0, "enough"},
	} {
		inBubble(t, func(b *bench) {
			r := b.killed(test.events, test.reason)
			r.f.Close()
			b.mended()
			intervals, result, _ := stored(t, b.agent, runID)
			if len(intervals) != 3 || result.GetSeconds() != 2 || result.GetTotals()[0].GetOperations() != 2 || result.GetCpuUserSeconds() != 1.5 {
				t.Errorf("%s: %d intervals, %v", name, len(intervals), result)
			}
			if result.GetStatus() != test.status || result.GetError().GetCode() != test.code || result.GetAbortReason() != test.abort {
				t.Errorf("%s: %v", name, result)
			}
		})
	}
}

// A result that had its end when the agent was killed keeps it, and gets no second one.
func TestEndedResultIsPublished(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		r := b.killed(untilEnd, "")
		want := &loadpb.Result{RunId: runID, Status: statusCompleted, Seconds: 7}
		if err := r.append(&loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: want}}); err != nil {
			t.Fatal(err)
		}
		r.f.Close()
		b.mended()
		if _, result, _ := stored(t, b.agent, runID); result.GetSeconds() != 7 {
			t.Errorf("got %v", result)
		}
		if _, err := os.Stat(filepath.Join(b.agent.results(), runID+partial)); err == nil {
			t.Error("the partial result is left")
		}
		if b.kept() {
			t.Error("the job is kept")
		}
	})
}

// notDeleted is an engine whose cleanup fails.
func notDeleted(f *fake) {
	f.say(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Cleaned{Cleaned: &loadpb.CleanupReport{LeftFiles: 1, Errors: []string{"it is not mounted"}}}})
}

// What could not be deleted is tried again at each start of the agent, until it can. The result is
// stored once.
func TestFailedCleanupIsTriedAgain(t *testing.T) {
	t.Parallel()
	check := func(b *bench) {
		b.Helper()
		for range 2 {
			if !b.kept() {
				b.Fatal("the job is not kept")
			}
			b.mended()
		}
		_, result, sum := stored(b.T, b.agent, runID)
		if result.GetCleanup().GetLeftFiles() != 1 {
			b.Errorf("got %v", result)
		}
		b.script.cleanup = nil
		b.mended()
		if b.kept() {
			b.Error("the job is kept for ever")
		}
		if _, _, again := stored(b.T, b.agent, runID); again != sum {
			b.Error("the result has changed")
		}
	}
	inBubble(t, func(b *bench) {
		b.script.cleanup = notDeleted
		b.running().ended(statusCompleted)
		check(b)
	})
	inBubble(t, func(b *bench) {
		b.script.cleanup = notDeleted
		b.killed(untilRunning, "").f.Close()
		b.mended()
		check(b)
	})
}

// A result that was kept for its time is not made again while the cleanup still fails.
func TestOldResultIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.cleanup = notDeleted
		b.killed(untilRunning, "").f.Close()
		b.mended()
		b.skew.Store(int64(100 * 365 * 24 * time.Hour)) // more than from the clock of a bubble to that of files
		b.agent.sweep()
		b.mended()
		if kept := b.agent.kept(); len(kept) > 0 {
			t.Errorf("kept: %v", kept)
		}
	})
}

// A result that nobody will end any more goes with its time; one whose job is there stays.
func TestAbandonedResultIsSwept(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.killed(untilRunning, "").f.Close()
		b.skew.Store(int64(100 * 365 * 24 * time.Hour))
		path := filepath.Join(b.agent.results(), runID+partial)
		b.agent.sweep()
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		b.agent.forget(runID)
		b.agent.sweep()
		if _, err := os.Stat(path); err == nil {
			t.Error("it is left")
		}
	})
}

// What an engine prints need not be UTF-8, and messages are.
func TestTextsAreUTF8(t *testing.T) {
	t.Parallel()
	var cut tail
	fmt.Fprint(&cut, strings.Repeat("ä", maxStderr), "x")
	if !utf8.ValidString(cut.String()) || !strings.HasSuffix(cut.String(), "äx") {
		t.Errorf("the end of stderr: %q", cut.String()[:10])
	}
	bad := &loadpb.Error{Message: "write \xff: no space", Subject: "\xff"}
	for name, prepare := range map[string]func(*fake){
		"fails": func(f *fake) { f.say(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Failed{Failed: bad}}) },
		"ends":  func(f *fake) { f.how = "exit status 1\xff"; f.kill() },
	} {
		inBubble(t, func(b *bench) {
			b.script.prepare = prepare
			c := b.open()
			c.configure()
			m := c.ended(statusError)
			if _, err := proto.Marshal(m); err != nil || m.GetResult().GetSha256() == nil {
				t.Errorf("%s: %v, %v", name, m, err)
			}
		})
	}
	for name, change := range map[string]func(*Config){
		"a root":           func(c *Config) { c.Roots[0].Path += "/\xff" },
		"the state folder": func(c *Config) { c.StateDir += "/\xff" },
	} {
		c := processConfig(t.TempDir(), t.TempDir())
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A cleanup that repeats what it has done makes no progress, and is ended; so is one that goes on
// when the agent is being stopped. The next start tries again.
func TestCleanupAtStartIsEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.cleanup = func(f *fake) {
			for n := uint64(0); f.say(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Progress{Progress: &loadpb.Progress{Phase: "cleanup", Done: min(n, 50)}}}) && f.wait(time.Second); n++ {
			}
		}
		b.killed(untilRunning, "").f.Close()
		begun := time.Now()
		b.mended()
		if took := time.Since(begun); took != 80*time.Second || !b.kept() {
			t.Errorf("after %s; the job is kept: %t", took, b.kept())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		begun = time.Now()
		if err := b.agent.mend(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 5*time.Second || !b.kept() {
			t.Errorf("stopped after %s; the job is kept: %t", took, b.kept())
		}
	})
}

// A trail that cannot be read keeps neither the agent from starting nor other trails from being closed.
func TestUnreadableTrail(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.killed(untilRunning, "").f.Close()
		path := filepath.Join(b.agent.trails(), "bad.jsonl")
		if err := os.WriteFile(path, []byte("nothing\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.mended()
		if got := b.path(runID); got != "IDLE CONFIG_RECEIVED READY RUNNING ERROR" {
			t.Error(got)
		}
		if !strings.Contains(b.log.String(), path) {
			t.Errorf("the log does not name it: %s", b.log.String())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
}

// Of roots within each other, the innermost counts, with its limits.
func TestInnermostRoot(t *testing.T) {
	t.Parallel()
	a := &Agent{config: Config{Roots: []Root{{Path: "/mnt"}, {Path: "/mnt/a/b/"}, {Path: "/mnt/a"}}}}
	for target, want := range map[string]string{"/mnt/a/b/c": "/mnt/a/b/", "/mnt/a/b": "/mnt/a/b/", "/mnt/a/bc": "/mnt/a", "/mnt/x": "/mnt", "x": "/mnt"} {
		if got := a.rootOf(target); got == nil || got.Path != want {
			t.Errorf("%s: %v, want %s", target, got, want)
		}
	}
	if got := a.rootOf("/tmp"); got != nil {
		t.Errorf("/tmp: %v", got)
	}
}
