package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTheNextRunRemovesWhatAKilledOneLeaves, but nothing of one that runs.
func TestTheNextRunRemovesWhatAKilledOneLeaves(t *testing.T) {
	t.Parallel()
	killed, dir := program(t, "--", "sh", "-c", "echo started; read -r line")
	stdin, err := killed.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	clusters := func() []string {
		found, _ := filepath.Glob(filepath.Join(dir, "pawl-postgres-*"))
		return found
	}
	next := func() {
		t.Helper()
		cmd, _ := program(t, "--", "true")
		cmd.Env = append(cmd.Env, "TMPDIR="+dir)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	next()
	if found := clusters(); len(found) != 1 {
		t.Fatalf("clusters beside one that is used: %v", found)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	lock, err := os.OpenFile(filepath.Join(clusters()[0], ".in-use"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // the server has ended
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	next()
	empty(t, dir)
}
