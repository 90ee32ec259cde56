//go:build linux || darwin

package supervisor_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// A file journal on a full disk returns an error, and continues once there is space.
// The limit of a file's size stands for the disk, in a process of its own.
func TestFileJournalOnAFullDisk(t *testing.T) {
	if os.Getenv("PAWL_TEST_FULL_DISK") != "" {
		fullDisk(t)
		return
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^TestFileJournalOnAFullDisk$")
	child.Env = append(os.Environ(), "PAWL_TEST_FULL_DISK=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func fullDisk(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	path := filepath.Join(t.TempDir(), "services.jsonl")
	j := open(t, path)
	fillTrail(t, j, "sv_web", 2)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var room syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	none := room
	none.Cur = uint64(before.Size()) + 10 // a part of a line fits
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &none); err != nil {
		t.Fatal(err)
	}
	last, _ := j.Last(context.Background(), "sv_web")
	e := audit.Entry{Entity: "sv_web", Sequence: 3, From: last.To, To: last.To, Event: lifecycle.ServiceShift, Actor: "test",
		Metadata: []byte(`{"state":"stopped"}`), At: last.At}
	e.Seal(last.Hash)
	for range 3 {
		if err := j.Append(context.Background(), e); err == nil {
			t.Fatal("an entry fits on a full disk")
		}
	}
	if got, err := j.Last(context.Background(), "sv_web"); err != nil || got.Sequence != 2 || len(trailOf(j, "sv_web")) != 2 {
		t.Errorf("after a failure the last entry is %d, %v", got.Sequence, err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(context.Background(), e); err != nil {
		t.Error(err)
	}
	_ = j.Close()
	j, err = supervisor.OpenFileJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if trail := trailOf(j, "sv_web"); len(trail) != 3 {
		t.Errorf("%d entries, want 3", len(trail))
	}
	_ = j.Close()
}
