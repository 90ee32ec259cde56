package agent

import (
	"context"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// maxOutbox is how many messages wait for a controller that does not read. One that lets more
// wait pings without reading, and has lost its connection.
const maxOutbox = 1000

// An outbox keeps what is to be sent, so that nobody waits for a slow reader. Statistics give way
// to newer ones; everything else is kept, in its order.
type outbox struct {
	ready chan struct{} // has a token if there may be something to take

	mu    sync.Mutex // guards what follows
	queue []parcel
}

type parcel struct {
	m    *loadpb.LiveStats
	live bool // it gives way to a newer one
}

func newOutbox() *outbox { return &outbox{ready: make(chan struct{}, 1)} }

// put adds a message and reports whether there was room.
func (o *outbox) put(m *loadpb.LiveStats, live bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if live {
		o.queue = slices.DeleteFunc(o.queue, func(p parcel) bool { return p.live })
	}
	if len(o.queue) >= maxOutbox {
		return false
	}
	o.queue = append(o.queue, parcel{m, live})
	select {
	case o.ready <- struct{}{}:
	default:
	}
	return true
}

// take returns the next message, or nil if ctx ends first.
func (o *outbox) take(ctx context.Context) *loadpb.LiveStats {
	for {
		o.mu.Lock()
		if len(o.queue) > 0 {
			m := o.queue[0].m
			o.queue = o.queue[1:]
			o.mu.Unlock()
			return m
		}
		o.mu.Unlock()
		select {
		case <-o.ready:
		case <-ctx.Done():
			return nil
		}
	}
}
