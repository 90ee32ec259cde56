package workload

import (
	"context"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
)

// maxQueued is how many frames wait for a slow reader. The oldest interval gives way to a newer one then: the
// totals have it, and no thread waits.
const maxQueued = 256

// An output writes frames from a goroutine of its own, so that nobody waits for a reader.
type output struct {
	w      io.Writer
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	ready  *sync.Cond
	queue  []*enginepb.EngineFrame
	closed bool
	done   chan struct{}
}

func newOutput(w io.Writer, cancel context.CancelCauseFunc) *output {
	o := &output{w: w, cancel: cancel, done: make(chan struct{})}
	o.ready = sync.NewCond(&o.mu)
	go o.write()
	return o
}

// push queues a frame.
func (o *output) push(f *enginepb.EngineFrame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= maxQueued {
		o.drop()
	}
	o.queue = append(o.queue, f)
	o.ready.Signal()
}

// drop removes the oldest frame that may be missing: an interval or progress.
func (o *output) drop() {
	for i, f := range o.queue {
		if f.GetInterval() != nil || f.GetProgress() != nil {
			o.queue = append(o.queue[:i], o.queue[i+1:]...)
			return
		}
	}
}

func (o *output) write() {
	defer close(o.done)
	for {
		f := o.next()
		if f == nil {
			return
		}
		if _, err := protodelim.MarshalTo(o.w, f); err != nil {
			o.cancel(errGone)
			return
		}
	}
}

// next returns the next frame, or nil if there will be none.
func (o *output) next() *enginepb.EngineFrame {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 {
		if o.closed {
			return nil
		}
		o.ready.Wait()
	}
	f := o.queue[0]
	o.queue = o.queue[1:]
	return f
}

// close returns when all frames are written.
func (o *output) close() {
	o.mu.Lock()
	o.closed = true
	o.ready.Signal()
	o.mu.Unlock()
	<-o.done
}
