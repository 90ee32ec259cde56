package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for if it fails; none waits so long if it
// does not.
const patience = 30 * time.Second

// wantDead waits until no process holds the named pipe open for writing.
func wantDead(t *testing.T, r *os.File) {
	t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(r); err != nil {
		t.Fatalf("a process is still alive: %v", err)
	}
}

// stopWhenReady runs the task, and ends its context with cause as soon as it has
// printed "ready".
func stopWhenReady(t *testing.T, task *Task, cause error) Result {
	t.Helper()
	p := newPrintout(t, "ready")
	ready := p.await["ready"]
	task.Log = p.Log
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		<-ready
		cancel(cause)
	}()
	return execute(t, ctx, task)
}

// (T1, J9) the cause says what the end of the context means.
func TestCommandStopped(t *testing.T) {
	t.Parallel()
	tests := []struct {
		cause error
		class string
	}{
		{nil, "canceled"},
		{ErrCanceled, "canceled"},
		{ErrTimeout, "timeout"},
		{fmt.Errorf("10m: %w", ErrTimeout), "timeout"},
		{context.DeadlineExceeded, "timeout"},
		{ErrInterrupted, "interrupted"},
		{errors.New("the claim was lost"), "canceled"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.cause), func(t *testing.T) {
			t.Parallel()
			path, r := namedPipe(t)
			task := newTask(t, script(`exec 3>"$FIFO"; sleep 1000 & echo ready; wait`))
			task.Work.Env = map[string]string{"FIFO": path}
			wantFailure(t, stopWhenReady(t, task, test.cause), test.class, false)
			wantDead(t, r)
		})
	}
}

func TestCommandDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	wantFailure(t, execute(t, ctx, newTask(t, argv("sleep", "1000"))), "timeout", false)
}

// A program that takes SIGTERM to clean up has time for it; what it exits with
// does not matter.
func TestCommandCleansUpOnTerm(t *testing.T) {
	t.Parallel()
	task := newTask(t, script(`trap 'echo cleaned >done; exit 0' TERM; echo ready; while :; do sleep 0.01; done`))
	wantFailure(t, stopWhenReady(t, task, ErrInterrupted), "interrupted", false)
	if b, err := os.ReadFile(task.BaseDir + "/done"); string(b) != "cleaned\n" {
		t.Errorf("it did not clean up: %q %v", b, err)
	}
}

// A program that ignores SIGTERM is killed after the grace.
func TestCommandIgnoresTerm(t *testing.T) {
	t.Parallel()
	path, r := namedPipe(t)
	task := newTask(t, argv(program("hold", path)...))
	task.Limits.Grace = 20 * time.Millisecond
	wantFailure(t, stopWhenReady(t, task, ErrCanceled), "canceled", false)
	wantDead(t, r)
}

func TestCommandStopIsNoted(t *testing.T) {
	t.Parallel()
	p := newPrintout(t, "ready")
	ready := p.await["ready"]
	task := newTask(t, argv(program("block")...))
	task.Log, task.Limits.Grace = p.Log, 20*time.Millisecond
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		<-ready
		cancel(ErrTimeout)
	}()
	execute(t, ctx, task)
	want := "timed out: sending SIGTERM\nstill running 20ms after SIGTERM: sending SIGKILL\n"
	if got := p.of(Notes); got != want {
		t.Errorf("noted %q, want %q", got, want)
	}
}

// What a program leaves behind in its group dies with it, also if it holds the
// output open and ignores SIGTERM.
func TestCommandLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	path, r := namedPipe(t)
	task := newTask(t, script(`exec 3>"$FIFO"; trap '' TERM HUP; sleep 1000 & echo done`))
	task.Work.Env = map[string]string{"FIFO": path}
	task.Limits.Drain = patience // not what ends it
	before := time.Now()
	wantOutput(t, execute(t, context.Background(), task), `"done"`)
	wantDead(t, r)
	if took := time.Since(before); took > patience {
		t.Errorf("took %v", took)
	}
}

// A process that left the group and holds the output open does not delay the step.
func TestCommandOutputHeldOpen(t *testing.T) {
	t.Parallel()
	p := newPrintout(t)
	task := newTask(t, argv(program("escape")...))
	task.Log, task.Limits.Drain = p.Log, 50*time.Millisecond
	r := execute(t, context.Background(), task)
	var pid int
	if _, err := fmt.Sscan(p.of(Stderr), &pid); err != nil || pid <= 1 {
		t.Fatal(pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("it was to live on: %v", err)
	}
	if r.Failure != nil {
		t.Error(r.Failure)
	}
	if got := p.of(Notes); !strings.Contains(got, "still holds the output open") {
		t.Errorf("noted %q", got)
	}
}

// A context that has ended starts nothing.
func TestCommandCanceledBeforeStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrInterrupted)
	task := newTask(t, script("echo started >started"))
	wantFailure(t, execute(t, ctx, task), "interrupted", false)
	if _, err := os.Stat(task.BaseDir + "/started"); err == nil {
		t.Error("it was started")
	}
}

// A context that ends while the program starts leaves nothing running, at
// whatever moment it ends.
func TestCommandCanceledDuringStart(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		path, r := namedPipe(t)
		task := newTask(t, script(`exec 3>"$FIFO"; sleep 1000`))
		task.Work.Env = map[string]string{"FIFO": path}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*200*time.Microsecond)
		wantFailure(t, execute(t, ctx, task), "timeout", false)
		cancel()
		wantDead(t, r)
	}
}
