package feed

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Batch is what a stream passes on at once: a notice, or events.
type Batch struct {
	Notice pawl.EventType // EventHello or EventGap; empty: none
	Gap    string         // the reason of an EventGap
	Events []*Event
	Token  string // behind the batch; empty: one cannot go on from there
	stats  *stats
}

// Select returns the events that a filter selects, and counts them as passed on.
func (b *Batch) Select(f *pawl.EventFilter) []*Event {
	var list []*Event
	for _, e := range b.Events {
		if f.Admits(&e.Event) {
			list = append(list, e)
		}
	}
	b.stats.sent.Add(int64(len(list)))
	return list
}

// A Stream reads events. One goroutine at a time uses it.
type Stream struct {
	hub    *Hub
	run    *run
	next   uint64           // number of the next batch of the ring
	notice *Batch           // to be passed on first
	from   *store.FeedToken // it reads by itself from here; nil: from the ring
	order  *order           // of what it reads by itself
	seen   *store.FeedToken // what of the ring it has seen by itself; nil: nothing
}

// Open returns a stream of what is committed after the token, or from now on if that is empty.
// If the feed cannot be read at all, the error is that of the store. Close ends the stream.
func (h *Hub) Open(ctx context.Context, after string) (*Stream, error) {
	r, err := h.attach(ctx)
	if err != nil {
		return nil, err
	}
	h.stats.streams.Add(1)
	s := &Stream{hub: h, run: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.next = r.first + uint64(len(r.ring))
	now := r.token.String()
	if after == "" {
		s.notice = &Batch{Notice: pawl.EventHello, Token: now, stats: &h.stats}
		return s, nil
	}
	at, err := store.ParseFeedToken(after)
	if err != nil {
		s.notice = s.gap(store.GapUnreadable, now)
		return s, nil
	}
	for i := len(r.ring) - 1; i >= 0; i-- {
		if r.ring[i].whole && r.ring[i].token.String() == after {
			s.next = r.first + uint64(i) + 1
			return s, nil
		}
	}
	s.from, s.order = &at, &order{source: h.cfg.Source}
	return s, nil
}

// Close ends the stream.
func (s *Stream) Close() {
	s.hub.stats.streams.Add(-1)
	s.hub.detach()
}

func (s *Stream) gap(reason, token string) *Batch {
	s.hub.stats.gaps.Add(1)
	return &Batch{Notice: pawl.EventGap, Gap: reason, Token: token, stats: &s.hub.stats}
}

// Next returns the next batch, when there is one. The error is that of the context, of the
// store, or of kind Unavailable if the hub was closed.
func (s *Stream) Next(ctx context.Context) (*Batch, error) {
	if b := s.notice; b != nil {
		s.notice = nil
		return b, nil
	}
	for s.from != nil {
		if b, err := s.read(ctx); b != nil || err != nil {
			return b, err
		}
	}
	for {
		b, wait := s.take()
		if b != nil {
			return b, nil
		}
		if wait == nil {
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.run.ctx.Done():
			return nil, errClosed
		}
	}
}

// read returns a batch that the stream reads by itself, or nil if that is empty.
func (s *Stream) read(ctx context.Context) (*Batch, error) {
	select {
	case s.hub.reading <- struct{}{}:
		defer func() { <-s.hub.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.run.ctx.Done():
		return nil, errClosed
	}
	found, err := s.hub.cfg.Source.Since(ctx, *s.from, s.hub.cfg.Page)
	var gap *store.GapError
	if errors.As(err, &gap) {
		s.from, s.order = &gap.Now, &order{source: s.hub.cfg.Source}
		return s.gap(gap.Reason, gap.Now.String()), nil
	}
	if err != nil {
		return nil, err
	}
	events, err := s.hub.ordered(ctx, s.order, found)
	if err != nil {
		return nil, err
	}
	b := &Batch{Events: events, stats: &s.hub.stats}
	if len(s.order.held) == 0 {
		b.Token = found.Token.String()
	}
	if s.from = &found.Token; found.All {
		s.from, s.order, s.seen = nil, nil, &found.Token
	}
	if len(events) == 0 {
		return nil, nil
	}
	return b, nil
}

// take returns the next batch of the ring. If there is none it returns what is closed when
// there may be one; with neither, the stream has seen all of the batch by itself.
func (s *Stream) take() (*Batch, <-chan struct{}) {
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case s.next < r.first:
		s.next, s.seen = r.first+uint64(len(r.ring)), nil
		return s.gap(store.GapBehind, r.token.String()), nil
	case s.next == r.first+uint64(len(r.ring)):
		return nil, r.changed
	}
	b := r.ring[s.next-r.first]
	s.next++
	if b.gap != "" {
		s.seen = nil
		return s.gap(b.gap, b.token.String()), nil
	}
	return s.unseen(b), nil
}

// unseen returns what the stream has not seen of a batch of the ring, or nil.
func (s *Stream) unseen(b *batch) *Batch {
	passed := &Batch{Events: b.events, stats: &s.hub.stats}
	if s.seen != nil {
		passed.Events = nil
		for _, e := range b.events {
			if !s.seen.Sees(e.commit) {
				passed.Events = append(passed.Events, e)
			}
		}
		if b.token.Covers(s.seen) {
			s.seen = nil
		}
	}
	if b.whole && s.seen == nil {
		passed.Token = b.token.String()
	}
	if len(passed.Events) == 0 && passed.Token == "" {
		return nil
	}
	return passed
}

// Token returns the place up to which the stream has passed on everything, or "" if that is
// none from which one can go on.
func (s *Stream) Token() string {
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.notice != nil || s.from != nil || !r.whole || s.next != r.first+uint64(len(r.ring)) || s.seen != nil && !r.token.Covers(s.seen) {
		return ""
	}
	return r.token.String()
}
