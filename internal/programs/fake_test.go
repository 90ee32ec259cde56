package programs

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/process"
)

// A cast is the fake programs of a scenario.
type cast struct {
	note func(id, format string, args ...any)

	mu     sync.Mutex
	actors map[string]*actor
}

// An actor is how a program behaves.
type actor struct {
	missing bool              // it cannot be started: permanent
	fork    bool              // it cannot be started: temporary
	slow    time.Duration     // how long a start takes
	deaf    bool              // it ignores all signals but SIGKILL
	stuck   bool              // not even SIGKILL ends it
	lingers time.Duration     // how long it runs on after a signal
	quick   string            // it ends at once, with this code
	probes  map[string]string // their results: ok, fail, hang
	now     *fake
}

func (c *cast) actor(id string) *actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.actors[id] == nil {
		c.actors[id] = &actor{probes: map[string]string{}}
	}
	return c.actors[id]
}

// end ends the program that runs, if one does.
func (c *cast) end(id, word string) {
	a := c.actor(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.now != nil {
		a.now.end(exitOf(word))
	}
}

// A fake is a childProcess without a process.
type fake struct {
	cast *cast
	id   string // empty: of a probe
	by   *actor
	pid  int
	once sync.Once
	done chan struct{}
	exit process.Exit
}

func (f *fake) PID() int              { return f.pid }
func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) Exit() process.Exit    { return f.exit }

func (f *fake) end(e process.Exit) {
	f.once.Do(func() {
		e.At = time.Now()
		f.exit = e
		close(f.done)
	})
}

func (f *fake) Stop(ctx context.Context, s syscall.Signal, grace time.Duration) bool {
	time.Sleep(time.Millisecond) // so that it comes after what led to it
	f.say(s)
	if s != syscall.SIGKILL && ctx.Err() == nil {
		quiet := time.Duration(1<<62 - 1)
		if !f.by.deaf && !f.by.stuck {
			quiet = f.by.lingers
		}
		timer, patience := time.NewTimer(quiet), time.NewTimer(grace)
		defer timer.Stop()
		defer patience.Stop()
		select {
		case <-timer.C:
			f.end(process.Exit{})
		case <-patience.C:
			f.say(syscall.SIGKILL)
		case <-ctx.Done():
			f.say(syscall.SIGKILL)
		case <-f.done:
		}
	}
	if !f.by.stuck {
		f.end(process.Exit{Code: -1, Signal: syscall.SIGKILL})
	}
	<-f.done
	return f.exit.Signal != 0
}

func (f *fake) say(s syscall.Signal) {
	if f.id != "" {
		f.cast.note(f.id, "  gets %s", unix.SignalName(s))
	}
}

// launch replaces Manager.launch. A command with an argument is a probe.
func (c *cast) launch(s process.Spec) (childProcess, error) {
	id, _ := strings.CutPrefix(s.Env[slices.IndexFunc(s.Env, func(e string) bool { return strings.HasPrefix(e, "PAWL_SERVICE=") })], "PAWL_SERVICE=")
	a := c.actor(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &fake{cast: c, by: a, pid: 42, done: make(chan struct{})}
	if len(s.Args) > 1 {
		switch a.probes[s.Args[1]] {
		case "ok", "":
			f.end(process.Exit{})
		case "fail":
			fmt.Fprintln(s.Stderr, "no")
			f.end(process.Exit{Code: 1})
		}
		return f, nil
	}
	f.id = id
	c.mu.Unlock()
	time.Sleep(a.slow + time.Millisecond) // so that it comes after what led to it
	c.mu.Lock()
	switch {
	case a.missing:
		return nil, fmt.Errorf("start /bin/true: it is not there: %w", fs.ErrNotExist)
	case a.fork:
		return nil, syscall.EAGAIN
	}
	if a.now != nil && !a.now.ended() {
		c.note(id, "  TWO COPIES RUN")
	}
	a.now = f
	c.note(id, "  runs")
	if a.quick != "" {
		time.AfterFunc(2*time.Millisecond, func() { f.end(exitOf(a.quick)) })
	}
	return f, nil
}

func (f *fake) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// exitOf parses an exit code, or the name of a signal.
func exitOf(word string) process.Exit {
	var e process.Exit
	if s := unix.SignalNum(word); s != 0 {
		return process.Exit{Code: -1, Signal: s}
	}
	fmt.Sscan(word, &e.Code)
	return e
}
