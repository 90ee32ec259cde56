//go:build linux

package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// TestKilledEngine: a new engine deletes what a killed one has created, by the manifest alone, and
// nothing that is of others (L5, L9).
func TestKilledEngine(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*process){
		"while it prepares": func(p *process) {
			p.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Prepare{Prepare: &enginepb.Prepare{}}})
			sets := 0
			p.until(func(f *enginepb.EngineFrame) bool {
				if f.GetProgress() != nil {
					sets++
				}
				return sets == 2
			})
		},
		"while it runs": func(p *process) {
			p.prepare()
			p.run(soon())
			p.until(func(f *enginepb.EngineFrame) bool { return f.GetInterval() != nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, `
name: killed
files: [{name: data, count: 1200, size: 4KiB, tree: {width: 10, depth: 1}}, {name: more, count: 1200, size: 4KiB}]
mix:
  - {operation: create, files: data}
  - {operation: delete, files: data}
  - {operation: rename, files: data}
  - {operation: mkdir, files: data}
  - {operation: append, files: more}
jobs: 2
interval: 100ms
`)
			p := start(t, job)
			kill(p)
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.cmd.Wait()
			foreign := filepath.Join(job.Root, "load/01RUN/agent-0/data/3/notes.txt")
			write(t, foreign, "of somebody else")
			write(t, filepath.Join(job.Root, "load/c0.0.0"), "of somebody else")

			p = start(t, job)
			report := p.clean()
			if report.GetDeletedFiles() == 0 || report.GetLeftFiles() > 0 || len(report.GetErrors()) > 0 {
				t.Error(report)
			}
			want := []string{"load", "load/01RUN", "load/01RUN/agent-0", "load/01RUN/agent-0/data", "load/01RUN/agent-0/data/3", "load/01RUN/agent-0/data/3/notes.txt", "load/c0.0.0"}
			if diff := cmp.Diff(want, tree(t, job.Root)); diff != "" {
				t.Error(diff)
			}
			if err := os.Remove(foreign); err != nil {
				t.Fatal(err)
			}
			p.clean() // again: what is not there is no error
			if diff := cmp.Diff([]string{"load", "load/c0.0.0"}, tree(t, job.Root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTarget: the folders that lead to the target are deleted if the run, or one before it, has made
// them and they are empty; those of somebody else stay, and so do those that have other things (L5).
func TestTarget(t *testing.T) {
	t.Parallel()
	const small = "name: small\ntarget: a/b\nfiles: [{name: d, count: 1, size: 4KiB}]\nmix: [{operation: read}]\ncount: 1\n"
	for name, tt := range map[string]struct {
		there, added string // folders before, and after it was prepared
		want         []string
	}{
		"nothing is there":                {"", "", nil},
		"all is there":                    {"a/b", "", []string{"a", "a/b"}},
		"a part is there":                 {"a", "", []string{"a"}},
		"another run is in it":            {"", "a/b/01OTHER", []string{"a", "a/b", "a/b/01OTHER"}},
		"something else is in its parent": {"", "a/notes", []string{"a", "a/notes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := newJob(t, small), newJob(t, small)
			other.Root, other.AgentIndex, other.AgentCount, one.AgentCount = one.Root, 1, 2, 2
			mkdir := func(name string) {
				if err := os.MkdirAll(filepath.Join(one.Root, name), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			mkdir(tt.there)
			p, q := start(t, one), start(t, other)
			p.prepare()
			q.prepare()
			mkdir(tt.added)
			p.clean() // q has files in the folder of the run
			q.clean()
			if diff := cmp.Diff(tt.want, tree(t, one.Root)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("there is no room", func(t *testing.T) {
		t.Parallel()
		job := newJob(t, strings.Replace(small, "4KiB", "1TiB", 1))
		if e := start(t, job).refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_NO_SPACE {
			t.Error(e)
		}
		if diff := cmp.Diff([]string(nil), tree(t, job.Root)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestNotMounted: where the run is not there and the root is on another file system than it was, nothing
// is forgotten.
func TestNotMounted(t *testing.T) {
	t.Parallel()
	job := newJob(t, "")
	head := `{"run_id":"01RUN","root":"` + job.Root + `","target":"load","agent_index":0,"device":%d}` + "\nd .\nf f0\n"
	root, err := openRoot(job.Root)
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	device, err := root.device()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, job)
	write(t, job.Manifest, fmt.Sprintf(head, device+1))
	if report := p.clean(); report.GetLeftFiles() != 1 || !strings.Contains(report.GetErrors()[0], "is it mounted?") {
		t.Error(report)
	}
	write(t, job.Manifest, fmt.Sprintf(head, device)) // it is gone
	left(t, job, p.clean())
	write(t, job.Manifest, fmt.Sprintf(head, device+1)) // it has another number now
	write(t, filepath.Join(job.Root, "load/01RUN/f0"), "")
	if report := p.clean(); report.GetDeletedFiles() != 1 {
		t.Error(report)
	}
	if diff := cmp.Diff([]string{"load"}, tree(t, job.Root)); diff != "" { // no engine has made it
		t.Error(diff)
	}
}

// TestCleaningGoesOn: what is not there any more is progress, too, for who waits for it.
func TestCleaningGoesOn(t *testing.T) {
	t.Parallel()
	c := &cleaner{report: &loadpb.CleanupReport{}}
	root, err := openRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	for range 3 {
		if err := errors.Join(c.unlink(root, "gone"), c.rmdir(root, "gone")); err != nil {
			t.Error(err)
		}
	}
	if n := c.progress().GetDone(); n != 6 {
		t.Errorf("done: %d", n)
	}
}

// TestLeftovers: what cannot be deleted of what operations have made is reported, once, and all else is deleted.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	job := newJob(t, "")
	for _, name := range []string{"c0.0.0", "c0.0.1", "c0.0.2.r", "d0.0.0/theirs", "d0.0.1/theirs"} {
		write(t, filepath.Join(job.Root, "load/01RUN/data", name), "")
	}
	write(t, job.Manifest, `{"run_id":"01RUN","root":"`+job.Root+`","target":"load","agent_index":0}`+"\nd .\nd data\nm data\n")
	report := start(t, job).clean()
	if report.GetDeletedFiles() != 3 || report.GetLeftFiles() != 2 || len(report.GetErrors()) != 2 || !strings.Contains(strings.Join(report.GetErrors(), " "), "data/d0.0.1: directory not empty") {
		t.Error(report)
	}
	want := []string{"load", "load/01RUN", "load/01RUN/data", "load/01RUN/data/d0.0.0", "load/01RUN/data/d0.0.0/theirs", "load/01RUN/data/d0.0.1", "load/01RUN/data/d0.0.1/theirs"}
	if diff := cmp.Diff(want, tree(t, job.Root)); diff != "" {
		t.Error(diff)
	}
}

// TestBackwards: a long manifest has the same lines from its end as from its beginning, but for the first one and
// one that is incomplete.
func TestBackwards(t *testing.T) {
	t.Parallel()
	name, text := filepath.Join(t.TempDir(), "manifest"), strings.Builder{}
	text.WriteString("{}\n")
	for i := range 200_000 {
		fmt.Fprintf(&text, "d data/%d\n", i*i)
	}
	write(t, name, text.String()+"d da")
	var there, back []string
	if _, err := readManifest(name, func(manifestHead) error { return nil }, func(_ byte, path string) error {
		there = append(there, path)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := readBackwards(name, func(_ byte, path string) error {
		back = append(back, path)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(back)
	if len(back) != 200_000 || !slices.Equal(there, back) {
		t.Errorf("%d lines from the beginning, %d from the end", len(there), len(back))
	}
}

// TestTornManifest: a line that was not written to its end stands for nothing, and one that leads out of the run
// is refused.
func TestTornManifest(t *testing.T) {
	t.Parallel()
	job := newJob(t, "")
	write(t, filepath.Join(job.Root, "load/01RUN/data/f1"), "")
	write(t, filepath.Join(job.Root, "load/01RUN/data/f10"), "")
	head := `{"run_id":"01RUN","root":"` + job.Root + `","target":"load","agent_index":0}` + "\n"
	write(t, job.Manifest, head+"d .\nd data\nf data/f10\nf data/f1")
	p := start(t, job)
	if report := p.clean(); report.GetDeletedFiles() != 1 {
		t.Error(report)
	}
	if diff := cmp.Diff([]string{"load", "load/01RUN", "load/01RUN/data", "load/01RUN/data/f1"}, tree(t, job.Root)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{head + "f ../other\n", strings.Replace(head, "01RUN", "02RUN", 1), "nothing\n"} {
		write(t, job.Manifest, bad)
		if report := p.clean(); len(report.GetErrors()) != 1 || report.GetLeftFiles() != 1 {
			t.Errorf("%q: %v", bad, report)
		}
	}
	if err := os.Remove(job.Manifest); err != nil {
		t.Fatal(err)
	}
	if report := p.clean(); len(report.GetErrors()) > 0 {
		t.Errorf("without a manifest nothing was created: %v", report)
	}
}

// TestOrphan: an engine whose agent has died ends at once and deletes nothing.
func TestOrphan(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: orphan, files: [{name: data, count: 2, size: 8KiB}], mix: [{operation: read}], duration: 1h, interval: 100ms}")
	p := start(t, job)
	p.prepare()
	p.run(0)
	p.until(func(f *enginepb.EngineFrame) bool { return f.GetInterval() != nil })
	if code := p.wait(); code != 1 || !strings.Contains(p.errors.String(), "the agent has closed stdin") {
		t.Errorf("exit code %d: %s", code, p.errors)
	}
	if n := len(tree(t, job.Root)); n != 6 {
		t.Errorf("%d files and folders are left: want 6", n)
	}
	left(t, job, start(t, job).clean())
}

// TestTerm: SIGTERM ends a run with the totals that it has, and the process with it. Nobody takes
// that for the end of the load.
func TestTerm(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: term, files: [{name: data, count: 2, size: 8KiB}], mix: [{operation: read}], duration: 1h, jobs: 2, interval: 100ms, rate: 500}")
	p := start(t, job)
	p.prepare()
	p.run(0)
	p.until(func(f *enginepb.EngineFrame) bool { return f.GetInterval() != nil })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _, f := p.finished()
	if n, _, _ := total(t, f, "read"); n == 0 || f.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED || f.GetSeconds() <= 0 {
		t.Error(f)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestHungOperation: an operation that does not return, here the opening of a pipe that nobody reads, does not
// keep the run from its end on SIGTERM, with what the other thread has done (L5).
func TestHungOperation(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: hung, files: [{name: data, count: 2, size: 4KiB}], mix: [{operation: write}, {operation: rename}], duration: 1h, jobs: 2, interval: 100ms}")
	p := start(t, job)
	p.prepare()
	file := filepath.Join(job.Root, "load/01RUN/agent-0/data/f1") // of the second thread
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	p.run(0)
	intervals := 0
	p.until(func(f *enginepb.EngineFrame) bool { // which go on
		if f.GetInterval() != nil {
			intervals++
		}
		return intervals == 4
	})
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _, f := p.finished()
	if n, _, _ := total(t, f, "write"); n == 0 {
		t.Error(f)
	}
	if err := p.cmd.Wait(); err != nil || !strings.Contains(p.errors.String(), "1 threads are in a system call") {
		t.Errorf("%v: %s", err, p.errors)
	}
	left(t, job, start(t, job).clean())
}

// TestSlowReader: while nobody reads what the engine writes, frames queue up to a limit; then the oldest
// interval gives way, and nothing else does. Nobody waits (L4).
func TestSlowReader(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	out := newOutput(w, func(error) {})
	for i := range int64(3 * maxQueued) {
		out.push(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Interval{Interval: &loadpb.Interval{StartNs: i}}})
	}
	out.push(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Finished{Finished: &enginepb.Finished{Seconds: 1}}})
	in := bufio.NewReader(r)
	last, intervals := int64(-1), 0
	for {
		f := &enginepb.EngineFrame{}
		if err := protodelim.UnmarshalFrom(in, f); err != nil {
			t.Fatal(err)
		}
		if f.GetFinished() != nil {
			break
		}
		if at := f.GetInterval().GetStartNs(); at <= last {
			t.Fatalf("interval %d after %d", at, last)
		}
		last = f.GetInterval().GetStartNs()
		intervals++
	}
	if intervals < maxQueued-1 || intervals > maxQueued+1 || last != 3*maxQueued-1 {
		t.Errorf("%d intervals up to %d: want about %d, the newest among them", intervals, last, maxQueued)
	}
	out.close()
}

// tree returns the paths of everything in a folder, sorted.
func tree(t testing.TB, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); rel != "." {
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
