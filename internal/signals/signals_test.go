package signals

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignals sends SIGINT after SIGINT and looks at what each of them ends.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		after        []time.Duration // the pause before each signal
		hurry        bool            // the command uses the second signal
		first, leave int             // the number of signals so far when each came; 0: never
		second       int
	}{
		{name: "none"},
		{name: "one", after: []time.Duration{0}, first: 1},
		{name: "two", after: []time.Duration{0, time.Second}, first: 1, leave: 2},
		{name: "an echo", after: []time.Duration{0, echo}, first: 1},
		{name: "an echo, then another", after: []time.Duration{0, echo / 2, time.Second}, first: 1, leave: 3},
		{name: "hurried", after: []time.Duration{0, time.Second}, hurry: true, first: 1, second: 2},
		{name: "hurried, an echo of the second", after: []time.Duration{0, time.Second, echo}, hurry: true, first: 1, second: 2},
		{name: "hurried, a third", after: []time.Duration{0, time.Second, time.Second}, hurry: true, first: 1, second: 2, leave: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sent, first, second, left := 0, 0, 0, 0
				h := New(func() { left = sent })
				go h.handle(func() { first = sent })
				if tt.hurry {
					ctx, cancel := h.Second()
					defer cancel()
					defer context.AfterFunc(ctx, func() { second = sent })()
				}
				for _, pause := range tt.after {
					time.Sleep(pause) // of the test's clock
					sent++
					h.C <- os.Interrupt
					synctest.Wait()
				}
				close(h.C)
				if first != tt.first || second != tt.second || left != tt.leave {
					t.Errorf("first ended at %d, second at %d, process at %d: want %d, %d, %d", first, second, left, tt.first, tt.second, tt.leave)
				}
			})
		})
	}
}

// TestHurryIsOver: once its command is done with it, the second signal ends the process.
func TestHurryIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := false
		h := New(func() { left = true })
		go h.handle(func() {})
		_, cancel := h.Second()
		cancel()
		h.C <- os.Interrupt
		time.Sleep(time.Second) // of the test's clock
		h.C <- os.Interrupt
		synctest.Wait()
		if !left {
			t.Error("the process goes on")
		}
		close(h.C)
	})
}

// TestFirst: a real signal ends the context, and so does stop.
func TestFirst(t *testing.T) {
	t.Parallel()
	h := New(func() { t.Error("one signal ended the process") })
	ctx, stop := h.First(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	other, stopOther := New(nil).First(t.Context())
	stopOther()
	<-other.Done()
}

// TestFailedWrites: what would end the process makes its write fail instead.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		write, want string
	}{
		{"pipe", "signal: broken pipe"},
		{"pipe, ignored", "exit status 7"},
		{"file, ignored", "exit status 7"},
	} {
		t.Run(tt.write, func(t *testing.T) {
			t.Parallel()
			c := exec.Command(os.Args[0], t.TempDir())
			c.Env = append(os.Environ(), child+"="+tt.write)
			stdin, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.Start(), stdout.Close(), stdin.Close()); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err == nil || err.Error() != tt.want {
				t.Errorf("the process ended with %v: want %s", err, tt.want)
			}
		})
	}
}

// child is the variable that makes this program write what fails.
const child = "PAWL_TEST_WRITE"

func TestMain(m *testing.M) {
	if how := os.Getenv(child); how != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until nothing reads stdout any more
		os.Exit(write(how, os.Args[1]))
	}
	os.Exit(m.Run())
}

// write returns 7 if the write fails.
func write(how, dir string) int {
	if strings.HasSuffix(how, "ignored") {
		defer IgnoreClosedPipes()()
		defer IgnoreFileLimit()()
	}
	w := os.Stdout
	if strings.HasPrefix(how, "file") {
		f, err := os.Create(filepath.Join(dir, "file"))
		if err == nil {
			err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1})
		}
		if err != nil {
			return 1
		}
		w = f
	}
	if _, err := w.WriteString("more than one byte"); err != nil {
		return 7
	}
	return 0
}
