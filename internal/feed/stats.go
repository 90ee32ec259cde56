package feed

import (
	"sync/atomic"
	"time"
)

// stats count what a hub does.
type stats struct {
	streams atomic.Int64
	sent    atomic.Int64
	gaps    atomic.Int64
}

// Stats are the figures of a hub.
type Stats struct {
	Streams int64         // open
	Sent    int64         // events that filters have selected
	Gaps    int64         // that streams had
	Lag     time.Duration // since the feed was last read to its end; 0 if nobody listens
}

// Stats returns the figures of the hub since it was made.
func (h *Hub) Stats() Stats {
	s := Stats{Streams: h.stats.streams.Load(), Sent: h.stats.sent.Load(), Gaps: h.stats.gaps.Load()}
	h.mu.Lock()
	r := h.run
	h.mu.Unlock()
	if r != nil && s.Streams > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.Lag = time.Since(r.read)
	}
	return s
}
