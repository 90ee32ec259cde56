package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trouble"
)

const defaultRing = 10_000 // events

// Config configures a Hub. Source and Definitions are required.
type Config struct {
	Source      Source
	Definitions *definitions.Cache // for the keys of steps

	// Poll is the interval at which the feed is read if nothing wakes the hub. Default 1 s.
	Poll time.Duration

	// Pause is the least time between two reads. Default 20 ms.
	Pause time.Duration

	// Ring is how many events a reader may be behind. Default 10,000.
	Ring int

	// Page is how many commits are read at once. Default 500.
	Page int

	// Log receives failures. Default: discarded.
	Log *slog.Logger
}

const (
	// linger is how long a hub without streams reads on, so that a client that connects again
	// finds its place in the ring.
	linger = 10 * time.Second

	// maxReading is how many streams read from their tokens at once; others wait.
	maxReading = 4
)

// A Hub reads the feed of a store for many streams. It is safe for concurrent use.
type Hub struct {
	cfg     Config
	wake    chan struct{}
	reading chan struct{}
	stats   stats

	mu      sync.Mutex
	closed  bool
	streams int
	idle    time.Time // since when there are none
	run     *run      // nil: nobody listens
	loops   sync.WaitGroup
}

// New returns a hub. It reads nothing until there is a stream.
func New(c Config) *Hub {
	c.Poll, c.Pause = cmp.Or(c.Poll, time.Second), cmp.Or(c.Pause, 20*time.Millisecond)
	c.Ring, c.Page = cmp.Or(c.Ring, defaultRing), cmp.Or(c.Page, 500)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &Hub{cfg: c, wake: make(chan struct{}, 1), reading: make(chan struct{}, maxReading)}
}

// Wake makes the hub read soon, if it has streams.
func (h *Hub) Wake() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Close ends the hub and all streams.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	if h.run != nil {
		h.run.end()
	}
	h.mu.Unlock()
	h.loops.Wait()
}

// A run is one stretch of reading.
type run struct {
	ctx   context.Context
	end   context.CancelFunc
	begun chan struct{} // closed when there is a place, or a failure
	fault error         // why there is none

	mu      sync.Mutex
	changed chan struct{} // closed with each change
	ring    []*batch
	first   uint64          // number of ring[0]; the batches are numbered from 0
	events  int             // of the ring
	token   store.FeedToken // behind everything
	whole   bool            // one can go on from the token
	read    time.Time       // when everything was read last
}

// A batch is a part of the feed, in order. It does not change.
type batch struct {
	gap    string // why nothing is known before it; then it has no events
	events []*Event
	token  store.FeedToken // behind it
	whole  bool            // one can go on from the token
}

// An Event is an event that many streams pass on.
type Event struct {
	pawl.Event
	commit uint64
	once   sync.Once
	json   []byte
}

// JSON returns the event in JSON. It is encoded once.
func (e *Event) JSON() []byte {
	e.once.Do(func() { e.json, _ = json.Marshal(&e.Event) }) // it has no field that could fail
	return e.json
}

// attach returns the run, which it begins if need be, once it has a place.
func (h *Hub) attach(ctx context.Context) (*run, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, errClosed
	}
	if h.run == nil || h.run.ctx.Err() != nil {
		own, end := context.WithCancel(context.Background())
		h.run = &run{ctx: own, end: end, begun: make(chan struct{}), changed: make(chan struct{})}
		h.loops.Add(1)
		go func(r *run) {
			defer h.loops.Done()
			defer r.end()
			h.loop(r)
		}(h.run)
	}
	r := h.run
	h.streams++
	h.mu.Unlock()
	select {
	case <-r.begun:
		if r.fault == nil {
			return r, nil
		}
		h.detach()
		return nil, r.fault
	case <-ctx.Done():
		h.detach()
		return nil, ctx.Err()
	}
}

var errClosed = &pawl.Error{Kind: pawl.Unavailable, Message: "the server ends"}

func (h *Hub) detach() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams--; h.streams == 0 {
		h.idle = time.Now()
	}
}

// unused reports whether there has been no stream for a while, and then gives up the run.
func (h *Hub) unused(r *run) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.streams > 0 || time.Since(h.idle) < linger {
		return h.closed
	}
	h.run = nil
	return true
}

// loop reads the feed until the hub is closed or unused.
func (h *Hub) loop(r *run) {
	b, err := h.cfg.Source.Since(r.ctx, store.FeedToken{}, 1)
	if err != nil {
		h.mu.Lock()
		r.fault, h.run = err, nil
		h.mu.Unlock()
		close(r.begun)
		return
	}
	r.token, r.whole, r.read = b.Token, true, time.Now()
	close(r.begun)
	at, o := b.Token, &order{source: h.cfg.Source}
	log := trouble.New(h.cfg.Log, "the feed of events cannot be read; it is tried again", "the feed of events can be read again")
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		next, all, err := h.step(r, o, at)
		if r.ctx.Err() != nil || h.unused(r) {
			return
		}
		log.Note(err)
		if err == nil {
			at = next
			if !all {
				continue
			}
		}
		if !sleep.For(r.ctx, h.cfg.Pause) {
			return
		}
		poll.Reset(h.cfg.Poll)
		select {
		case <-h.wake:
		case <-poll.C:
		case <-r.ctx.Done():
			return
		}
	}
}

// step reads what was committed after a place, and puts it into the ring.
func (h *Hub) step(r *run, o *order, at store.FeedToken) (next store.FeedToken, all bool, err error) {
	b, err := h.cfg.Source.Since(r.ctx, at, h.cfg.Page)
	var gap *store.GapError
	if errors.As(err, &gap) {
		*o = order{source: h.cfg.Source}
		h.put(r, &batch{gap: gap.Reason, token: gap.Now, whole: true}, true)
		return gap.Now, false, nil
	}
	if err != nil {
		return at, true, err
	}
	events, err := h.ordered(r.ctx, o, b)
	if err != nil {
		return at, true, err
	}
	h.put(r, &batch{events: events, token: b.Token, whole: len(o.held) == 0}, b.All)
	return b.Token, b.All, nil
}

// ordered returns the events of a batch in order, as users see them.
func (h *Hub) ordered(ctx context.Context, o *order, b *store.FeedBatch) ([]*Event, error) {
	passed, err := o.put(ctx, b)
	if err != nil {
		return nil, err
	}
	events := make([]*Event, len(passed))
	for i := range passed {
		e := &passed[i]
		events[i] = &Event{Event: shown(e), commit: e.Commit}
		if e.Ord == 0 {
			continue
		}
		def, err := h.cfg.Definitions.Get(ctx, e.Definition)
		switch {
		case err == nil:
			events[i].Step = def.Key(e.Ord)
		case pawl.KindOf(err) != pawl.NotFound && pawl.KindOf(err) != pawl.Internal:
			return nil, err
		}
	}
	return events, nil
}

// put adds a batch to the ring, unless it is empty, and wakes the streams.
func (h *Hub) put(r *run, b *batch, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all {
		r.read = time.Now()
	}
	if r.token, r.whole = b.token, b.whole; len(b.events) == 0 && b.gap == "" {
		return
	}
	r.ring, r.events = append(r.ring, b), r.events+len(b.events)
	for r.events > h.cfg.Ring && len(r.ring) > 1 {
		r.events -= len(r.ring[0].events)
		r.ring[0] = nil
		r.ring, r.first = r.ring[1:], r.first+1
	}
	close(r.changed)
	r.changed = make(chan struct{})
}
