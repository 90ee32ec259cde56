package crew

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// The environment of a process that changes a member and kills itself (C3), or makes a worktree.
const (
	envRepo  = "PAWL_CREW_TEST_REPO"
	envDir   = "PAWL_CREW_TEST_DIR"
	envCrash = "PAWL_CREW_TEST_CRASH" // at which call of the hook
)

func TestMain(m *testing.M) {
	durable.SelftestChild()
	switch dir := os.Getenv(envDir); {
	case os.Getenv(envRepo) != "":
		addWorktree(os.Getenv(envRepo))
	case dir != "" && os.Getenv(envCrash) != "":
		changeAndDie(dir)
	case dir != "":
		hammer(dir)
	}
	os.Exit(m.Run())
}

// changeAndDie makes changes, prints the version of each that is acknowledged, and kills itself
// at one operation.
func changeAndDie(dir string) {
	at, _ := strconv.Atoi(os.Getenv(envCrash))
	calls := 0
	f, err := Open(dir)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	f.Disk.Hook = func(durable.Op, string, bool) error {
		if calls++; calls == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	for _, event := range []machine.Event{lifecycle.MemberSpawn, lifecycle.MemberAssign, lifecycle.MemberStart, lifecycle.MemberAttention} {
		m, err := move(context.Background(), f, "auth", event)
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		if _, err := fmt.Println("version", m.Version); err != nil {
			os.Exit(1) // it was not acknowledged
		}
	}
	fmt.Println("calls", calls)
	os.Exit(0)
}

// move makes one transition that the test does not judge.
func move(ctx context.Context, f *Folder, id string, event machine.Event) (*Member, error) {
	by := Move{Event: event, Actor: "test", Set: func(m *Member) { m.Epoch++ }}
	if event == lifecycle.MemberSpawn {
		return f.Spawn(ctx, id, by)
	}
	return f.Change(ctx, id, func(*Member) (*Move, error) { return &by, nil })
}

func newFolder(t *testing.T) *Folder {
	t.Helper()
	f, err := Create(filepath.Join(t.TempDir(), FolderName))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// crash runs changeAndDie, and returns the last acknowledged version and, if it survived, the
// number of calls.
func crash(t *testing.T, dir string, at int) (version int64, calls int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), envDir+"="+dir, envCrash+"="+strconv.Itoa(at))
	out, err := c.Output()
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "version %d", &version)
		_, _ = fmt.Sscanf(lines.Text(), "calls %d", &calls)
	}
	if (err == nil) != (calls > 0) || calls == 0 && !strings.Contains(err.Error(), "killed") {
		t.Fatalf("crash at %d: %v: %s", at, err, out)
	}
	return version, calls
}

// check fails unless the history of a member is valid, and its state is where it leads.
func check(t *testing.T, f *Folder, id string) *Member {
	t.Helper()
	m, err := f.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(f.history(id))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ends, err := audit.VerifyLines(file)
	if err != nil {
		t.Fatal(err)
	}
	if end := ends[entity(id)]; end.State != m.State || end.Seq != m.Version {
		t.Fatalf("the history leads to %+v, the state is %s at version %d", end, m.State, m.Version)
	}
	return m
}

// TestKilledAtEachOperation: whatever operation of a change its process dies at, no acknowledged
// change is lost, at most one unacknowledged one is there, and the next process goes on at once
// (C3).
func TestKilledAtEachOperation(t *testing.T) {
	t.Parallel()
	_, calls := crash(t, newFolder(t).Dir, 0)
	if calls < 4*2*len([]durable.Op{durable.OpAppend, durable.OpSync, durable.OpCreate, durable.OpWrite, durable.OpSync, durable.OpRename, durable.OpSyncDir}) {
		t.Fatalf("only %d calls of the hook", calls)
	}
	for at := 1; at <= calls; at++ {
		f := newFolder(t)
		acked, _ := crash(t, f.Dir, at)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		m, err := f.change(ctx, "auth", func(*Member) (*Move, error) { return nil, nil })
		cancel()
		if err != nil {
			t.Fatalf("killed at %d: %v", at, err)
		}
		if m == nil && acked == 0 {
			continue
		}
		if m.Version != acked && m.Version != acked+1 {
			t.Errorf("killed at %d: version %d, and %d was acknowledged", at, m.Version, acked)
		}
		check(t, f, "auth")
		if _, err := move(t.Context(), f, "auth", lifecycle.Member.Allowed(m.State)[0]); err != nil {
			t.Errorf("killed at %d: %v", at, err)
		}
		check(t, f, "auth")
		swept, err := durable.Sweep(f.Dir, time.Now().Add(2*time.Hour))
		if err != nil || len(swept) > 1 {
			t.Errorf("killed at %d: swept %v, %v", at, swept, err)
		}
	}
}

// TestFailingOperations: an operation that fails (no space left, a broken disk) is an error, and the member has its
// old state; or the new one, and the error says so. It can be changed again afterwards (C3).
func TestFailingOperations(t *testing.T) {
	t.Parallel()
	ops := []durable.Op{durable.OpAppend, durable.OpSync, durable.OpCreate, durable.OpWrite, durable.OpRename, durable.OpSyncDir}
	for _, op := range ops {
		for _, after := range []bool{false, true} { // not done, and done but reported as failed
			for _, undo := range []bool{true, false} { // whether what was done can be taken back
				t.Run(fmt.Sprintf("%s after=%t undo=%t", op, after, undo), func(t *testing.T) {
					t.Parallel()
					f := newFolder(t)
					for _, event := range []machine.Event{lifecycle.MemberSpawn, lifecycle.MemberAssign} {
						if _, err := move(t.Context(), f, "auth", event); err != nil {
							t.Fatal(err)
						}
					}
					f.Disk.Hook = func(o durable.Op, _ string, a bool) error {
						if o == op && a == after || o == durable.OpTruncate && !undo {
							return syscall.ENOSPC
						}
						return nil
					}
					_, err := move(t.Context(), f, "auth", lifecycle.MemberStart)
					if !errors.Is(err, syscall.ENOSPC) {
						t.Fatalf("error %v, want that there is no space", err)
					}
					f.Disk.Hook = nil
					m, err2 := f.Change(t.Context(), "auth", func(*Member) (*Move, error) { return nil, nil })
					if err2 != nil {
						t.Fatal(err2)
					}
					if m.Version == 3 && undo && !strings.Contains(err.Error(), "may stay") {
						t.Errorf("the change is there, and the error is %v", err)
					}
					check(t, f, "auth")
					if _, err := move(t.Context(), f, "auth", lifecycle.MemberAttention); err != nil {
						t.Fatal(err)
					}
					check(t, f, "auth")
				})
			}
		}
	}
}

// TestTornRows: every beginning of the last row is cut off, kept aside, and never joined with
// the next row (C3, C6).
func TestTornRows(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	for _, event := range []machine.Event{lifecycle.MemberSpawn, lifecycle.MemberAssign} {
		if _, err := move(t.Context(), f, "auth", event); err != nil {
			t.Fatal(err)
		}
	}
	state, err := os.ReadFile(f.state("auth"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(f.history("auth"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := move(t.Context(), f, "auth", lifecycle.MemberStart); err != nil {
		t.Fatal(err)
	}
	longer, err := os.ReadFile(f.history("auth"))
	if err != nil {
		t.Fatal(err)
	}
	for size := len(whole) + 1; size < len(longer); size += 7 {
		if err := errors.Join(os.WriteFile(f.state("auth"), state, 0o644), os.WriteFile(f.history("auth"), longer[:size], 0o644)); err != nil {
			t.Fatal(err)
		}
		m, err := move(t.Context(), f, "auth", lifecycle.MemberAttention)
		if err != nil || m.Version != 3 || m.Attempt != 0 {
			t.Fatalf("%d bytes of the row: %+v, %v", size-len(whole), m, err)
		}
		check(t, f, "auth")
		torn, err := os.ReadFile(fmt.Sprintf("%s.torn-%d", f.history("auth"), len(whole)))
		if err != nil || string(torn) != string(longer[len(whole):size]) {
			t.Fatalf("%d bytes of the row: kept %d bytes, %v", size-len(whole), len(torn), err)
		}
	}
}
