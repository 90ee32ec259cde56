//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// An engine carries out commands, one after the other.
type engine struct {
	job      Job
	clock    clock
	emit     func(*enginepb.EngineFrame)
	prepared *prepared
	ready    *run // what was prepared, if it needs nothing that other agents prepare
	busy     atomic.Bool
}

// serve carries out commands until ctx ends.
func (e *engine) serve(ctx context.Context, commands <-chan *enginepb.EngineCommand) {
	for {
		select {
		case c := <-commands:
			e.busy.Store(true)
			e.do(ctx, c)
		case <-ctx.Done():
			return
		}
	}
}

func (e *engine) do(ctx context.Context, c *enginepb.EngineCommand) {
	switch {
	case c.GetPrepare() != nil:
		e.prepare(ctx)
	case c.GetRun() != nil:
		e.run(ctx, c.GetRun().GetStartMonotonicNs())
	case c.GetCleanup() != nil:
		e.clean(ctx)
	default:
		e.fail(errors.New("a command that this engine does not know"), loadpb.ErrorCode_ERROR_CODE_PROTOCOL)
	}
}

// reply emits what ends a command. The agent may close stdin as soon as it has that.
func (e *engine) reply(f *enginepb.EngineFrame) {
	e.busy.Store(false)
	e.emit(f)
}

func (e *engine) progress(p *loadpb.Progress) {
	e.emit(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Progress{Progress: p}})
}

func (e *engine) prepare(ctx context.Context) {
	l, err := newLayout(e.job)
	if err != nil {
		e.fail(err, loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID)
		return
	}
	p, done, err := l.prepare(ctx, e.progress)
	if err == nil {
		if err = p.checkBlocks(); err == nil {
			err = p.checkRing()
		}
	}
	if err != nil {
		e.fail(err, loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED)
		return
	}
	if !l.test.Shared { // which opens files of other agents
		if e.ready, err = newRun(p, e.clock); err != nil {
			e.fail(err, loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED)
			return
		}
	}
	e.prepared = p
	e.reply(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Prepared{Prepared: done}})
}

func (e *engine) run(ctx context.Context, start int64) {
	if e.prepared == nil {
		e.fail(errors.New("run: nothing is prepared"), loadpb.ErrorCode_ERROR_CODE_PROTOCOL)
		return
	}
	r, err := e.ready, error(nil)
	if r == nil {
		r, err = newRun(e.prepared, e.clock)
	}
	e.prepared, e.ready = nil, nil // a run changes what was prepared
	if err != nil {
		e.fail(err, loadpb.ErrorCode_ERROR_CODE_IO)
		return
	}
	r.startAt(start)
	e.reply(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Finished{Finished: r.do(ctx, e.emit)}})
}

func (e *engine) clean(ctx context.Context) {
	if e.ready != nil { // open files of NFS would stay
		e.ready.release()
		e.prepared, e.ready = nil, nil
	}
	report, err := Clean(ctx, e.job, e.progress)
	if err != nil {
		report.Errors = append([]string{fmt.Sprintf("clean up: %v", err)}, report.Errors...)
		report.Errors = report.Errors[:min(len(report.Errors), maxErrors)]
		report.LeftFiles = max(report.LeftFiles, 1)
	}
	e.reply(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Cleaned{Cleaned: report}})
}
