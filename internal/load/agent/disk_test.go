package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	trails "github.com/pawl-dev/pawl/internal/trail"
)

// A state folder that cannot be written ends the run, whatever it is that cannot be, and the
// engine with it. The agent goes on.
func TestStateFolderCannotBeWritten(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks string // the folder that is missing from READY on, or from the beginning
		early  bool
	}{
		"no folder for results":       {"results", true},
		"no folder for jobs":          {"runs", true},
		"no folder for trails, early": {"trail", true},
		"no folder for trails, late":  {"trail", false},
		"no folder for results, late": {"results", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bench) {
				dir := filepath.Join(b.agent.config.StateDir, test.breaks)
				broken := func() {
					if err := os.Rename(dir, dir+".away"); err != nil {
						t.Fatal(err)
					}
				}
				if test.early {
					broken()
					c := b.dial()
					c.send(&loadpb.ControlMessage{Hello: &loadpb.Hello{ProtocolMin: 1, ProtocolMax: 1}})
					if m := c.next(); m.GetHello() != nil {
						c.epoch = m.GetSessionEpoch()
						c.configure()
						c.ended(statusError)
					} else if m.GetStatus() != statusError {
						t.Errorf("got %v", m)
					}
					<-c.done
				} else {
					c := b.ready()
					broken()
					c.startIn(time.Second)
					want := statusError
					if test.breaks == "results" { // it was measured, and only the result cannot be kept
						want = statusCompleted
					}
					m := c.until(want)
					if test.breaks == "results" && (!strings.Contains(m.GetErrorMessage(), "the result cannot be kept") || m.GetResult().GetSha256() != nil) {
						t.Errorf("got %v", m)
					}
					c.acknowledge(m)
					<-c.done
				}
				for i, f := range b.script.engines {
					if !f.ended {
						t.Errorf("engine %d has not ended", i)
					}
				}
				if b.agent.current != nil {
					t.Error("the agent is not free")
				}
				if err := os.Rename(dir+".away", dir); err != nil {
					t.Fatal(err)
				}
				if err := b.agent.mend(context.Background()); err != nil {
					t.Fatal(err)
				}
				if test.breaks == "results" && !test.early {
					if intervals, result, _ := stored(t, b.agent, runID); len(intervals) != 3 || result.GetStatus() != statusCompleted {
						t.Errorf("after the next start: %d intervals, %v", len(intervals), result)
					}
				}
				next := b.open("next")
				next.configure()
				next.until(statusReady)
				next.startIn(time.Second)
				next.ended(statusCompleted)
			})
		})
	}
}

// What the config keeps after COMPLETED is kept, too, if the row of that cannot be written: the
// next start of the agent closes the trail as an error, and deletes nothing.
func TestLastRowCannotBeWritten(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		dir := b.agent.trails()
		b.script.run = func(f *fake) {
			if !f.begin() || !f.second(0) {
				return
			}
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Error(err)
			}
			f.say(finished(nil))
		}
		c := b.open()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: config + "cleanup: {completed: nothing}\n"})
		c.until(statusReady)
		c.startIn(time.Second)
		c.ended(statusCompleted)
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		b.mended()
		if len(b.script.engines) != 1 {
			t.Errorf("commands: %v", b.script.commands)
		}
		if got := b.path(runID); got != "IDLE CONFIG_RECEIVED READY RUNNING ERROR" {
			t.Error(got)
		}
	})
}

// Each class of errors of the state folder has its code.
func TestStorageCodes(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]loadpb.ErrorCode{
		syscall.ENOSPC: loadpb.ErrorCode_ERROR_CODE_NO_SPACE, syscall.EDQUOT: loadpb.ErrorCode_ERROR_CODE_NO_SPACE,
		syscall.EROFS: loadpb.ErrorCode_ERROR_CODE_PERMISSION, syscall.EACCES: loadpb.ErrorCode_ERROR_CODE_PERMISSION,
		syscall.EIO: loadpb.ErrorCode_ERROR_CODE_IO,
	} {
		if got := storageCode(&os.PathError{Op: "write", Err: err}); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// A trail that somebody has changed is found (K6): a row that has another reason, one that is
// gone, and two that have changed places.
func TestTamperedTrail(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "enough"})
		c.ended(statusAborted)
		text, err := os.ReadFile(filepath.Join(b.agent.trails(), runID+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if v := trails.VerifyExport(strings.NewReader(string(text))); !v.OK || v.Entries != 4 {
			t.Fatalf("as it is: %+v", v)
		}
		rows := strings.SplitAfter(string(text), "\n")
		for name, tampered := range map[string]string{
			"another reason": strings.Replace(string(text), "enough", "Enough", 1),
			"a row less":     rows[0] + rows[2] + rows[3],
			"another order":  rows[0] + rows[2] + rows[1] + rows[3],
			"another state":  strings.Replace(string(text), `"to":"ABORTED"`, `"to":"ERROR"`, 1),
		} {
			if v := trails.VerifyExport(strings.NewReader(tampered)); v.OK || v.Fault == nil {
				t.Errorf("%s is not found", name)
			}
		}
	})
}

// A row that was torn by a crash is cut off, and the run is closed.
func TestTornTrail(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT})
		c.ended(statusAborted)
		path := filepath.Join(b.agent.trails(), runID+".jsonl")
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, text[:len(text)-20], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.agent.mend(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := b.path(runID); got != "IDLE CONFIG_RECEIVED READY ERROR" {
			t.Error(got)
		}
	})
}

// A result whose agent died is whole up to its last record, and the rest is cut off.
func TestTornResult(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		r, err := b.agent.record(runID)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			if err := r.add(interval(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(r.f.Truncate(r.size-1), r.f.Close()); err != nil {
			t.Fatal(err)
		}
		if r, err = b.agent.resume(runID); err != nil {
			t.Fatal(err)
		}
		sum, size, err := r.finish(&loadpb.Result{RunId: runID})
		if err != nil {
			t.Fatal(err)
		}
		intervals, result, want := stored(t, b.agent, runID)
		if len(intervals) != 2 || result.GetRunId() != runID || string(sum) != string(want[:]) || size == 0 {
			t.Errorf("%d intervals, %v", len(intervals), result)
		}
	})
}
