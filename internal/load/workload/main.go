//go:build linux

package workload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// errGone is why everything stops when stdin ends.
var errGone = errors.New("the agent has closed stdin")

// Main is the engine process: it reads a Job and then commands from stdin, writes frames to
// stdout and diagnostics to stderr, and returns the exit code when stdin ends. It waits for nothing
// then: the agent is dead, and the next one cleans up. access is for the engine s3, and may be nil. When ctx ends, a run ends early with its totals and an error.
func Main(ctx context.Context, access Access, stdin io.Reader, stdout, stderr io.Writer) int {
	in := bufio.NewReader(stdin)
	job, err := readJob(in)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	job.Access = access
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	commands := make(chan *enginepb.EngineCommand)
	go read(ctx, in, commands, cancel)
	out := newOutput(stdout, cancel)
	e := &engine{job: job, clock: newClock(), emit: out.push}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.serve(ctx, commands)
		out.close()
	}()
	select {
	case <-done:
	case <-gone(ctx):
	}
	if cause := context.Cause(ctx); errors.Is(cause, errGone) && e.busy.Load() {
		fmt.Fprintln(stderr, cause)
		return 1
	}
	return 0
}

// gone returns a channel that is closed when ctx ends because nobody is there any more.
func gone(ctx context.Context) <-chan struct{} {
	out := make(chan struct{})
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errGone) {
			close(out)
		}
	})
	return out
}

func read(ctx context.Context, in *bufio.Reader, commands chan<- *enginepb.EngineCommand, cancel context.CancelCauseFunc) {
	for {
		c := &enginepb.EngineCommand{}
		if err := protodelim.UnmarshalFrom(in, c); err != nil {
			cancel(errGone)
			return
		}
		select {
		case commands <- c:
		case <-ctx.Done():
			return
		}
	}
}

// fail emits an error in place of a result.
func (e *engine) fail(err error, otherwise loadpb.ErrorCode) {
	e.reply(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Failed{Failed: proto(err, otherwise)}})
}
