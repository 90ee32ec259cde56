package feed

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
)

// A Source is a store as far as the feed is read.
type Source interface {
	store.Feed
	// Trail reads the audit entries of one entity; see store.Views.
	Trail(ctx context.Context, k store.EntityKey, after int64, limit int) ([]audit.Entry, error)
}

// apart is how long before its commit an entry may be dated, in microseconds: it is dated when
// its transaction begins, and that may wait for locks.
const apart = int64(time.Minute / time.Microsecond)

// An order puts the events of batches that follow one another in order, and adds their From.
type order struct {
	source Source
	last   states
	held   []store.Event // they wait for a predecessor
}

// put returns the events of a batch, and those held before, that can be passed on. With those
// it holds the place behind the batch is no place to go on from.
//
// Two commits about one entity follow each other, so what the later one needs is visible when it
// is: in this batch, or in one before. Only if the batch is a page of a longer read may it be on
// a page to come. Its transaction then got its number after those of this page, so that it is
// dated later than they are, less what it may have waited.
func (o *order) put(ctx context.Context, b *store.FeedBatch) ([]store.Event, error) {
	all := slices.Concat(o.held, b.Events)
	end, commit := int64(0), uint64(0)
	for i := range b.Events {
		if e := &b.Events[i]; e.Commit >= commit {
			commit, end = e.Commit, e.At
		}
	}
	var held []store.Event
	sortEach(all)
	passed := all[:0]
	waits := map[store.EntityKey]bool{}
	for _, e := range all {
		if !waits[e.EntityKey] {
			ahead, err := o.follow(ctx, &e, !b.All, end)
			if err != nil {
				return nil, err
			}
			waits[e.EntityKey] = ahead
		}
		if waits[e.EntityKey] {
			held = append(held, e)
			continue
		}
		o.last.put(e.EntityKey, state{e.Sequence, e.To})
		passed = append(passed, e)
	}
	o.held = held
	return passed, nil
}

// sortEach sorts events by time, and those of each entity by sequence within the places that
// they have.
func sortEach(events []store.Event) {
	slices.SortStableFunc(events, func(a, b store.Event) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Commit, b.Commit)) })
	places := map[store.EntityKey][]int{}
	for i := range events {
		k := events[i].EntityKey
		places[k] = append(places[k], i)
	}
	for _, at := range places {
		if slices.IsSortedFunc(at, func(a, b int) int { return cmp.Compare(events[a].Sequence, events[b].Sequence) }) {
			continue
		}
		own := make([]store.Event, len(at))
		for i, place := range at {
			own[i] = events[place]
		}
		slices.SortFunc(own, func(a, b store.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
		for i, place := range at {
			events[place] = own[i]
		}
	}
}

// follow sets the From of an event, and reports whether its predecessor may be on a page to
// come, which begins after the time end.
func (o *order) follow(ctx context.Context, e *store.Event, more bool, end int64) (ahead bool, err error) {
	last, known := o.last.get(e.EntityKey)
	switch {
	case e.Sequence == 1:
		return false, nil
	case known && last.sequence == e.Sequence-1:
		e.From = last.to
		return false, nil
	case !more:
		if e.From = store.OnlyFrom(e.Kind, e.Event, e.To); e.From != "" {
			return false, nil
		}
	}
	page, err := o.source.Trail(ctx, e.EntityKey, e.Sequence-2, 1)
	if err != nil || len(page) == 0 || page[0].Sequence != e.Sequence-1 {
		return false, err
	}
	e.From = page[0].To
	return more && page[0].At >= end-apart, nil
}

// A state is that of an entity after an entry.
type state struct {
	sequence int64
	to       machine.State
}

// keptStates bounds the states that are remembered: this many, to twice as many.
const keptStates = 20_000

// states remember the last states of the entities that moved last.
type states struct{ young, old map[store.EntityKey]state }

func (s *states) get(k store.EntityKey) (state, bool) {
	v, ok := s.young[k]
	if !ok {
		v, ok = s.old[k]
	}
	return v, ok
}

func (s *states) put(k store.EntityKey, v state) {
	if len(s.young) >= keptStates || s.young == nil {
		s.old, s.young = s.young, make(map[store.EntityKey]state)
	}
	s.young[k] = v
}

// shown returns an event for users. The key of its step is set by the caller.
func shown(e *store.Event) pawl.Event {
	v := pawl.Event{Type: pawl.EventTransition, Entity: e.Entity, Machine: e.Kind, Name: e.Name, Workspace: e.Workspace,
		Sequence: e.Sequence, To: e.To, Event: e.Entry.Event, Reason: e.Reason, Actor: e.Actor, RequestID: e.RequestID, At: pawl.Timestamp(e.At)}
	if e.From != "" {
		v.From = &e.From
	}
	if e.Job != (pawl.ID{}) {
		v.JobID = e.Job.Public(pawl.JobPrefix)
	}
	return v
}
