package programs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// A launched is a program that was started: a *process.Process, or a fake of it.
type launched interface {
	PID() int
	Done() <-chan struct{}
	Exit() process.Exit
	Stop(ctx context.Context, s syscall.Signal, grace time.Duration) (killed bool)
}

// A run is one attempt of a program. It is registered before its process is
// started, so that there are never two. What is not final is guarded by the ward's
// mu.
type run struct {
	order   uint64
	program *spec.Program   // as it was started
	over    chan struct{}   // closed when the exit is known
	notify  *process.Notify // or nil
	kick    chan struct{}   // WATCHDOG=1 has come
	output  []*lines
	awaits  atomic.Pointer[probe] // that no line has matched yet

	rules     *spec.Program // as it is by now: its probes, and the policy
	proc      launched      // nil until it is started
	startedAt time.Time
	late      bool // it came when nobody waited for it any more, and is killed
	exit      *exit
	ordered   bool
	cause     string // why the keeper ends it by itself

	isReady  bool
	wasReady bool
	readyAt  time.Time
	sick     string
	status   string
	ready    *probe // or nil
	alive    *probe // likewise
	probing  context.Context
	cancel   context.CancelFunc
	probers  sync.WaitGroup
}

// launch starts the program. When ctx has ended meanwhile nobody knows of it any
// more, and it is killed at once.
func (w *ward) launch(ctx context.Context, want wish) error {
	r, err := w.register(want)
	if err != nil {
		return err
	}
	proc, err := w.spawn(r)
	if err != nil {
		w.refused(r, err)
		return err
	}
	late := ctx.Err() != nil || w.keeper.killing()
	w.started(r, proc, late)
	if late {
		w.disown(r, ctx)
		return fmt.Errorf("it was started too late, and killed: %w", context.Cause(ctx))
	}
	return nil
}

// register makes the next run, unless the last one has not ended.
func (w *ward) register(want wish) (*run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.run; l != nil && l.exit == nil {
		return nil, errors.New("the last one has not ended yet")
	}
	if w.keeper.killing() {
		return nil, supervisor.ErrShuttingDown
	}
	if w.wish.Order > want.Order {
		want = w.wish // it has changed since the start was decided on
	}
	now := time.Now()
	if w.run == nil || want.Order > w.run.order {
		w.failures, w.restarts = 0, nil
	} else {
		w.restarts = append(w.restarts, now)
	}
	r := &run{order: want.Order, program: want.Program, rules: want.Program, over: make(chan struct{}), startedAt: now}
	r.setProbes()
	w.run = r
	w.attempts++
	return r, nil
}

func (w *ward) spawn(r *run) (launched, error) {
	spec, err := w.spec(r)
	if err != nil {
		return nil, err
	}
	return w.keeper.launch(spec)
}

// refused notes that the program could not be started.
func (w *ward) refused(r *run, err error) {
	permanent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, supervisor.ErrNonRetriable)
	w.end(r, exit{Text: "it cannot be started: " + err.Error(), Code: -1, Permanent: permanent})
}

// started notes that the program runs, and has it watched. One that comes late is
// going to be killed.
func (w *ward) started(r *run, proc launched, late bool) {
	w.mu.Lock()
	r.proc, r.startedAt, r.late = proc, time.Now(), late
	w.starts++
	if !late {
		w.beginProbes(r)
	}
	w.mu.Unlock()
	w.keeper.running.Go(func() { w.watch(r) })
	w.changed()
}

// watch waits for the end of the program, and kills it when all are to be killed.
func (w *ward) watch(r *run) {
	select {
	case <-r.proc.Done():
	case <-w.keeper.killed.Done():
		r.proc.Stop(w.keeper.killed, syscall.SIGKILL, 0)
		<-r.proc.Done()
	}
	for _, l := range r.output {
		l.flush()
	}
	e := r.proc.Exit()
	w.end(r, exit{Text: exitText(e), Code: e.Code})
	r.probers.Wait()
}

// end notes how an attempt has ended.
func (w *ward) end(r *run, e exit) {
	if r.notify != nil {
		_ = r.notify.Close() // nobody writes to it any more
	}
	w.mu.Lock()
	r.cancel()
	e.At, e.Draw, e.Order = time.Now(), w.keeper.random(), w.wish.Order
	e.Ordered, e.Cause = r.ordered, r.cause
	w.unready(r, e.At)
	if !e.Ordered {
		w.failures++
	}
	w.restarts = recentOf(w.restarts, e.At, r.rules.Restart)
	r.exit = &e
	close(r.over)
	w.mu.Unlock()
	w.changed()
}

// recentOf keeps as many of the times as the policy counts.
func recentOf(times []time.Time, now time.Time, r spec.Restart) (recent []time.Time) {
	for _, t := range times[max(0, len(times)-r.Burst):] {
		if now.Sub(t) < r.Window {
			recent = append(recent, t)
		}
	}
	return recent
}

// disown kills what was started for nobody.
func (w *ward) disown(r *run, ctx context.Context) {
	w.mu.Lock()
	if errors.Is(context.Cause(ctx), supervisor.ErrActionTimeout) {
		r.cause = "starting it took too long"
	} else {
		r.ordered = true
	}
	w.mu.Unlock()
	r.proc.Stop(dead, syscall.SIGKILL, 0)
	<-r.over
}

// dead is a context that has ended: what is stopped with it is killed at once.
var dead = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// finish ends the program, if it runs, with all that belongs to it. Without a cause
// somebody has ordered that, and it is no failure.
func (w *ward) finish(ctx context.Context, s spec.Stop, cause string) error {
	w.mu.Lock()
	r := w.run
	if r == nil || r.proc == nil || r.exit != nil {
		w.mu.Unlock()
		return nil
	}
	if cause == "" {
		r.ordered = true
	} else {
		r.cause = cause
	}
	r.cancel()
	w.mu.Unlock()
	r.proc.Stop(ctx, signalOf(s.Signal), s.Grace)
	<-r.over
	return nil
}

func signalOf(name string) syscall.Signal {
	if s := unix.SignalNum(name); s != 0 {
		return s
	}
	return syscall.SIGTERM
}

func exitText(e process.Exit) string {
	if e.Signal == 0 {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	name := unix.SignalName(e.Signal)
	if name == "" {
		name = fmt.Sprintf("signal %d", int(e.Signal))
	}
	return "killed by " + name
}

// changed has the service look, since something has happened to the program.
func (w *ward) changed() { w.keeper.wake(w.id) }
