package engine

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
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

// TestHintsWakeAsManyAsTheyHaveSteps: at once, by their places, and the other workers later, the
// further behind the later, unless they have scanned the queue by then. A hint without numbers
// wakes all (T3, T10).
func TestHintsWakeAsManyAsTheyHaveSteps(t *testing.T) {
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
		"two hints":               {2, []store.Hint{work(0, 1), work(1, 1)}, []int{0, 1}, nil, nil},
		"the largest number":      {4, []store.Hint{work(1<<32-1, 2)}, []int{0, 3}, map[int][]int{3: {1}, 5: {2}}, nil},
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

// TestAWorkerFedByItsProcessLooksAtOnce: whether another one is to look first or not, for as long
// as submissions are likely to come that would otherwise go through the queue (T3).
func TestAWorkerFedByItsProcessLooksAtOnce(t *testing.T) {
	t.Parallel()
	for name, feed := range map[string]func(o *Slots) bool{
		"by an offered slot": func(o *Slots) bool { o.Add(1); return o.take() },
		"by a spare slot":    func(o *Slots) bool { return o.lend(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := peersOf(2)
				o := s.list[1]
				if !feed(o) {
					t.Fatal("the slot was not taken")
				}
				for _, want := range []bool{true, false} {
					s.hear(store.Hint{Topic: store.TopicWork, First: 0, Steps: 1})
					if o.Rung() != want {
						t.Errorf("woken: %t, want %t", o.Rung(), want)
					}
					s.look(o.worker.Key())
					time.Sleep(fedFor)
				}
			})
		})
	}
}

// TestProcessesThatSubmitKeepHandingOver: of four processes that submit 400 jobs a second each to
// workers of their own, one in a hundred of which finds no slot, four fifths begin in the commit
// that makes them. If each hint made all workers but one wait, 30 % would.
func TestProcessesThatSubmitKeepHandingOver(t *testing.T) { // T3
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes, jobs = 4, 1000
		workers := peersOf(processes)
		all := make([]*offers, processes)
		for i, o := range workers.list {
			all[i] = &offers{list: []*Slots{o}}
			o.offers = all[i]
			go scanning(t.Context(), o)
			o.ring()
		}
		var handed atomic.Int32
		var submitting sync.WaitGroup
		for i, o := range workers.list {
			submitting.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				for job := range jobs {
					time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) / 400))
					if job%100 > 0 && o.take() {
						handed.Add(1)
						o.giveBack()
						o.Add(1)
						continue
					}
					all[i].ring()
					h := store.Hint{Topic: store.TopicWork, First: random.Uint32(), Steps: 1}
					time.AfterFunc(time.Millisecond, func() {
						for j, s := range all {
							if j != i {
								s.hear(h)
							}
						}
					})
				}
			})
		}
		submitting.Wait()
		if share := int(handed.Load()) * 100 / (processes * jobs); share < 75 {
			t.Errorf("%d %% of the jobs were handed over, want at least 75", share)
		}
	})
}

// scanning is a worker that scans the queue for a millisecond whenever its bell rings, finds
// nothing, and offers many slots.
func scanning(ctx context.Context, o *Slots) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.Work():
		}
		n := o.offers.look(o.worker.Key())
		time.Sleep(time.Millisecond)
		o.offers.saw(o.worker.Key(), n, false, false)
		o.Add(1000)
	}
}

// placing is a store that gives each worker the second of three places, and keeps the steps of
// which it is to notify others.
type placing struct {
	store.Store
	steps atomic.Int64
}

func (n *placing) Beat(context.Context, link.Pulse) (*link.Pulsed, error) {
	return &link.Pulsed{Place: 1, Peers: 3}, nil
}

func (n *placing) Wake(steps int, _ ...store.Topic) { n.steps.Add(int64(steps)) }

// TestBeatsGiveTheirPlacesToWorkers: a worker goes by the place that its last beat was told, and
// the hint of a commit has the number of the steps that it has left in the queue (T3).
func TestBeatsGiveTheirPlacesToWorkers(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	s := &placing{Store: db}
	e := New(Config{Store: s, Passive: true, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	w := newOffering(t, e)
	if _, err := e.Beat(t.Context(), link.Pulse{Worker: w.self.Key()}); err != nil {
		t.Fatal(err)
	}
	before := s.steps.Load()
	e.submitOne(t)
	if n := s.steps.Load() - before; n != 1 {
		t.Errorf("the hint of a submission that no worker has taken has %d steps, want 1", n)
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
