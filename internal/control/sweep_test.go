package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// files returns the names of the files in a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// (S14) What a killed process leaves is removed by the next one that listens, whatever its name. What belongs
// to live processes stays, also if a cleaner has removed the lock, and so does what is not a host's.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	c := exec.Command(os.Args[0], "-test.run=^TestStaleSocket$")
	c.Env = append(os.Environ(), "PAWL_TEST_LISTEN="+dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = out.Read(make([]byte, 1)) // it listens
	must(t, err, c.Process.Kill())
	_ = c.Wait()
	live, err := Listen(dir, About{Name: "live", Role: "server"})
	must(t, err)
	defer live.Close()
	if got := files(t, dir); !slices.Equal(got, []string{"live.lock", "live.sock"}) {
		t.Errorf("after a killed process: %q", got)
	}

	must(t, os.Remove(filepath.Join(dir, "live.lock")), os.WriteFile(filepath.Join(dir, "halfway.lock"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600), os.WriteFile(filepath.Join(dir, ".sock"), nil, 0o600))
	other, err := Listen(dir, About{Name: "other", Role: "server"})
	must(t, err)
	defer other.Close()
	if got := files(t, dir); !slices.Equal(got, []string{".sock", "live.sock", "notes.txt", "other.lock", "other.sock"}) {
		t.Errorf("beside a live process without its lock: %q", got)
	}
	if s, err := net.Dial("unix", live.Path()); err != nil {
		t.Errorf("the live process: %v", err)
	} else {
		s.Close()
	}
}

// (S14) Processes that start at once, each with the name of a dead one, all get their names, though each
// sweeps what the others are about to take.
func TestSweepersAtOnce(t *testing.T) {
	t.Parallel()
	const hosts, rounds = 8, 20
	dir := folder(t)
	for range rounds {
		var all sync.WaitGroup
		listeners, errs := make([]*Listener, hosts), make([]error, hosts)
		for i := range hosts {
			all.Go(func() {
				listeners[i], errs[i] = Listen(dir, About{Name: fmt.Sprint("host", i), Role: "server"})
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, l := range listeners {
			if c, err := net.Dial("unix", l.Path()); err != nil {
				t.Error(err)
			} else {
				c.Close()
			}
			_ = l.socket.Close() // as the end of a process does
			_ = l.lock.Close()
		}
	}
	if got := files(t, dir); len(got) != 2*hosts {
		t.Errorf("there are %q", got)
	}
}
