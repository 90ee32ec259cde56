package crew

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
)

// tracer returns the path of strace, and the variables that it needs. Where it is missing it is unpacked from
// packages that apt-get downloads, which needs no rights.
func tracer(t *testing.T) (path string, env []string) {
	t.Helper()
	if path, err := exec.LookPath("strace"); err == nil {
		return path, nil
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	get := exec.CommandContext(ctx, "sh", "-c", "{ apt-get download strace libunwind8 || { apt-get update -q && apt-get download strace libunwind8; }; } && for p in *.deb; do dpkg-deb -x $p . || exit; done")
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		t.Fatalf("strace is missing; run: sudo apt-get install -y --no-install-recommends strace\n%v\n%s", err, out)
	}
	libs, err := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "usr/bin/strace"), []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

// TestKilledAtEachSystemCall: at whatever system call on files a process dies or fails, seen from outside of
// it, no acknowledged change is lost, at most one unacknowledged one is there, and the next process goes on
// at once (C3).
func TestKilledAtEachSystemCall(t *testing.T) {
	t.Parallel()
	strace, env := tracer(t)
	for _, tt := range []struct {
		calls, what string
		most, step  int // how often it comes, and which of them
	}{
		{"write", "signal=KILL", 20, 1},
		{"fsync", "signal=KILL", 12, 1},
		{"/^rename", "signal=KILL", 6, 1},
		{"openat", "signal=KILL", 60, 5},
		{"flock", "signal=KILL", 12, 2},
		{"write", "error=ENOSPC", 20, 1},
		{"fsync", "error=EIO", 12, 1},
		{"/^rename", "error=EROFS", 6, 1},
	} {
		t.Run(tt.calls+" "+tt.what, func(t *testing.T) {
			t.Parallel()
			hit := 0
			for n := 1; n <= tt.most; n += tt.step {
				if injected(t, strace, env, fmt.Sprintf("%s:%s:when=%d", tt.calls, tt.what, n)) {
					hit++
				}
			}
			if hit == 0 {
				t.Error("none was hit")
			}
			t.Logf("%d were hit", hit)
		})
	}
}

// injected runs four changes under the tracer, and reports whether they were hit by what it injects.
func injected(t *testing.T, strace string, env []string, what string) bool {
	t.Helper()
	f := newFolder(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	calls, _, _ := strings.Cut(what, ":")
	c := exec.Command(strace, "-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"), "-e", "trace="+calls, "-e", "inject="+what, self)
	c.Env = append(append(os.Environ(), env...), "GOMAXPROCS=1", envDir+"="+f.Dir, envCrash+"=0")
	out, err := c.Output()
	var acked int64
	for line := range strings.Lines(string(out)) {
		_, _ = fmt.Sscanf(line, "version %d", &acked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	m, settled := f.change(ctx, "auth", func(*Member) (*Move, error) { return nil, nil })
	switch {
	case settled != nil:
		t.Fatalf("%s: %v", what, settled)
	case m == nil && acked == 0:
		return err != nil
	case m == nil || m.Version != acked && m.Version != acked+1:
		t.Fatalf("%s: %+v, and %d was acknowledged: %s", what, m, acked, out)
	}
	check(t, f, "auth")
	if _, err := move(t.Context(), f, "auth", lifecycle.Member.Allowed(m.State)[0]); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	check(t, f, "auth")
	return err != nil
}
