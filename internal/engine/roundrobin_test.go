package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
)

// peersOf returns the offers of n workers, each of which has its place among n.
func peersOf(n int) *offers {
	s := new(offers)
	mint := mint{}
	for i := range n {
		w := &pawl.Worker{ID: mint.next(time.Now())}
		s.list = append(s.list, &Slots{worker: w, offers: s, bell: newBell(), work: newBell()})
		s.placed(w.Key(), i, n)
	}
	return s
}

// heard returns the places of the workers whose bell has rung since the last call.
func (s *offers) heard() (places []int) {
	for i, o := range s.list {
		select {
		case <-o.work.c:
			places = append(places, i)
		default:
		}
	}
	return places
}

// TestHintsGoRoundRobin: a hint wakes as many workers at once as it has steps, by their places,
// and the others later, the further behind the later, unless they have scanned the queue by
// then. A hint without numbers wakes all (T3, T10).
func TestHintsGoRoundRobin(t *testing.T) {
	t.Parallel()
	work := func(first uint32, steps int) store.Hint {
		return store.Hint{Topic: store.TopicWork, First: first, Steps: steps}
	}
	for name, tt := range map[string]struct {
		peers int
		hints []store.Hint
		want  []int         // at once
		later map[int][]int // by milliseconds
		scans []int         // who scans at once
	}{
		"one step":                {4, []store.Hint{work(6, 1)}, []int{2}, map[int][]int{3: {3}, 5: {0, 1}}, nil},
		"three steps":             {4, []store.Hint{work(7, 3)}, []int{0, 1, 3}, map[int][]int{3: {2}}, nil},
		"more steps than workers": {4, []store.Hint{work(1, 9)}, []int{0, 1, 2, 3}, nil, nil},
		"nobody knows how many":   {4, []store.Hint{work(1, 0)}, []int{0, 1, 2, 3}, nil, nil},
		"one after the other":     {2, []store.Hint{work(0, 1), work(1, 1)}, []int{0, 1}, nil, nil},
		"the end of the numbers":  {4, []store.Hint{work(1<<32-1, 1), work(0, 1)}, []int{0, 3}, map[int][]int{3: {1}, 5: {2}}, nil},
		"who has scanned rests":   {4, []store.Hint{work(0, 1)}, []int{0}, map[int][]int{5: {2, 3}}, []int{0, 1}},
		"a single worker":         {1, []store.Hint{work(5, 1)}, []int{0}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := peersOf(tt.peers)
				for _, h := range tt.hints {
					s.hear(h)
				}
				if got := s.heard(); !slices.Equal(got, tt.want) {
					t.Errorf("%v were woken at once, want %v", got, tt.want)
				}
				for _, i := range tt.scans {
					s.look(s.list[i].worker.Key())
				}
				for ms := range 20 {
					if got := s.heard(); !slices.Equal(got, tt.later[ms]) {
						t.Errorf("%v were woken within %d ms, want %v", got, ms, tt.later[ms])
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
			})
		})
	}
}

// TestAHintWakesAStranger: a worker that does not know its place yet wakes at once.
func TestAHintWakesAStranger(t *testing.T) { // T10
	t.Parallel()
	s := peersOf(1)
	s.placed(s.list[0].worker.Key(), 0, 0)
	s.hear(store.Hint{Topic: store.TopicWork, First: 1, Steps: 1})
	if got := s.heard(); len(got) != 1 {
		t.Errorf("%v were woken, want the worker", got)
	}
}

// TestAHintForOthersClosesOffers: what is in the queue must not be overtaken, even if another
// worker is to claim it first (T3).
func TestAHintForOthersClosesOffers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := peersOf(2)
		o := s.list[1]
		o.Add(1)
		s.hear(store.Hint{Topic: store.TopicWork, First: 0, Steps: 1})
		o.Add(1)
		if n := o.Reserved(); n != 0 {
			t.Errorf("%d slots are offered beside a step in the queue, want none", n)
		}
		s.look(o.worker.Key())
		s.saw(o.worker.Key(), 1, false, false)
		if o.Add(1); o.Reserved() != 1 {
			t.Errorf("%d slots are offered after a scan that has found nothing, want 1", o.Reserved())
		}
	})
}

// numbering is a store that gives each worker the second of three places, and keeps what is
// announced.
type numbering struct {
	store.Store
	announced int
}

func (n *numbering) Beat(context.Context, link.Pulse) (*link.Pulsed, error) {
	return &link.Pulsed{Place: 1, Peers: 3}, nil
}

func (n *numbering) Announce(steps int) { n.announced += steps }

// TestBeatsGiveTheirPlacesToWorkers: a worker goes by the place that its last beat was told, and a
// commit announces what it has left in the queue (T3).
func TestBeatsGiveTheirPlacesToWorkers(t *testing.T) {
	t.Parallel()
	e, inner := interposedEngine(t)
	s := &numbering{Store: inner}
	e.store = s
	w := newOffering(t, e)
	if _, err := e.Beat(t.Context(), link.Pulse{Worker: w.self.Key()}); err != nil {
		t.Fatal(err)
	}
	before := s.announced
	e.submitOne(t)
	if n := s.announced - before; n != 1 {
		t.Errorf("a submission that no worker has taken announced %d steps, want 1", n)
	}
	w.visit(t, link.Exchange{Free: 1})
	e.hint(store.Hint{Topic: store.TopicWork, First: 0, Steps: 1})
	if w.offer.Rung() {
		t.Error("the second worker was woken for the first step")
	}
	e.hint(store.Hint{Topic: store.TopicWork, First: 1, Steps: 1})
	if !w.offer.Rung() {
		t.Error("the second worker was not woken for the second step")
	}
}
