// Package signals decides what SIGINT, SIGTERM and SIGHUP do to a command: the first ends its
// context, the next one ends the process, unless the command uses it itself.
//
// A [Handler] receives them. [Handler.First] returns the context that the first signal ends.
// While a command has the context of [Handler.Second], the second signal ends that one, and
// the third ends the process. A signal within 200 ms of another counts as the same signal sent
// twice, as timeout(1) does, and is dropped.
//
// [IgnoreClosedPipes] and [IgnoreFileLimit] turn two signals that would end the process
// into errors of the write that caused them.
package signals

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// A Handler receives the signals of one process.
type Handler struct {
	C     chan os.Signal // 2: the second signal must not be lost while the first is handled
	leave func()         // ends the process
	hurry atomic.Pointer[func()]
}

// New returns a handler that calls leave to end the process.
func New(leave func()) *Handler { return &Handler{C: make(chan os.Signal, 2), leave: leave} }

// echo is how long a signal counts as a repetition of the last one. A program in the same
// process group, such as timeout(1), forwards a signal that the terminal has sent already.
const echo = 200 * time.Millisecond

// First returns a context that ends with the first SIGINT or SIGTERM, or with the first SIGHUP
// unless SIGHUP is ignored, as under nohup(1). It is called once; stop releases the signals.
func (h *Handler) First(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signal.Notify(h.C, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(h.C, syscall.SIGHUP)
	}
	go h.handle(cancel)
	return ctx, func() {
		signal.Stop(h.C)
		close(h.C)
		cancel()
	}
}

// handle returns when the channel is closed.
func (h *Handler) handle(cancel func()) {
	if _, ok := <-h.C; !ok {
		return
	}
	cancel()
	last := time.Now()
	for range h.C {
		if time.Since(last) <= echo {
			continue
		}
		f := h.hurry.Swap(nil)
		if f == nil {
			h.leave()
			return
		}
		(*f)()
		last = time.Now()
	}
}

// Second returns a context that ends with the second signal. Until the returned function is
// called, that signal does not end the process; the third one does.
func (h *Handler) Second() (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(context.Background())
	hurry := func() { end() }
	h.hurry.Store(&hurry)
	return ctx, func() {
		h.hurry.CompareAndSwap(&hurry, nil)
		end()
	}
}

// IgnoreClosedPipes keeps this process alive when it writes to a stdout or stderr whose reader
// is gone: the write fails instead. Programs that it starts are not affected.
func IgnoreClosedPipes() (stop func()) { return ignore(syscall.SIGPIPE) }

// IgnoreFileLimit keeps this process alive when a file that it writes reaches its size limit
// (ulimit -f): the write fails, as on a full disk.
func IgnoreFileLimit() (stop func()) { return ignore(syscall.SIGXFSZ) }

// ignore catches a signal instead of ignoring it, since child processes inherit ignored
// signals.
func ignore(s os.Signal) (stop func()) {
	c := make(chan os.Signal, 1) // never read
	signal.Notify(c, s)
	return func() { signal.Stop(c) }
}
