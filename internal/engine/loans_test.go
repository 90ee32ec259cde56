package engine

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A network carries hints and messages between engines on one database in memory.
type network struct {
	mu   sync.Mutex
	ears map[string]func(store.Hint)
	lose func(*store.Message) bool // nil: nothing is lost
	hold func(*store.Message) bool // nil: nothing is held up
	held []parcel

	order    sync.Mutex // held while a message is delivered
	underWay []parcel
	sent     map[store.MessageKind]int
	work     int // hints of work
}

// A station is the store of one engine on a network.
type station struct {
	store.Store
	net    *network
	handle string
	asks   int
}

func (s *station) Ask(slots int) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	s.asks += slots
}

func (s *station) Hears() bool { return true }

func (s *station) Listen(ctx context.Context, f func(store.Hint)) error {
	s.net.mu.Lock()
	s.net.ears[s.handle] = f
	s.net.mu.Unlock()
	<-ctx.Done()
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	delete(s.net.ears, s.handle)
	return nil
}

func (s *station) Wake(steps int, topics ...store.Topic) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	for _, topic := range topics {
		if topic == store.TopicWork {
			s.net.work++
		}
		h := store.Hint{Topic: topic, Steps: steps}
		if topic == store.TopicWork && s.asks > 0 {
			h.From, h.Asks, s.asks = s.handle, s.asks, 0
		}
		for to, f := range s.net.ears {
			if to != s.handle {
				time.AfterFunc(time.Millisecond, func() { f(h) })
			}
		}
	}
}

// Send delivers a copy after a millisecond, behind what was sent before.
func (s *station) Send(to string, given *store.Message) {
	m := *given
	m.From, m.Taken = s.handle, nil
	if len(given.Taken) > 0 != (m.Kind == store.MessageTake) {
		panic("a message of this kind has no steps, or needs some")
	}
	for _, t := range given.Taken {
		j, st := *t.Job, *t.Step
		m.Taken = append(m.Taken, store.Taken{Job: &j, Step: &st})
	}
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	s.net.sent[m.Kind]++
	if s.net.lose != nil && s.net.lose(&m) {
		return
	}
	p := parcel{to, &m}
	if s.net.hold != nil && s.net.hold(&m) {
		s.net.held = append(s.net.held, p)
		return
	}
	s.net.underWay = append(s.net.underWay, p)
	time.AfterFunc(time.Millisecond, s.net.deliverNext)
}

// A parcel is a message on its way.
type parcel struct {
	to string
	m  *store.Message
}

func (n *network) deliverNext() {
	n.order.Lock()
	defer n.order.Unlock()
	n.mu.Lock()
	p := n.underWay[0]
	n.underWay = n.underWay[1:]
	n.mu.Unlock()
	n.deliver(p.to, p.m)
}

func (n *network) deliver(to string, m *store.Message) {
	n.mu.Lock()
	f := n.ears[to]
	n.mu.Unlock()
	if f != nil {
		f(store.Hint{Topic: store.TopicMessages, Message: m})
	}
}

func (n *network) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// of returns how many messages of a kind were sent.
func (n *network) of(kind store.MessageKind) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[kind]
}

// hints returns how many hints of work were sent.
func (n *network) hints() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.work
}

// release delivers what is held up, and keeps it to be delivered again.
func (n *network) release() {
	n.mu.Lock()
	held := slices.Clone(n.held)
	n.mu.Unlock()
	for _, p := range held {
		n.deliver(p.to, p.m)
	}
}

// A lending is a worker of one engine, which the test operates, and an engine that submits.
type lending struct {
	*offering
	net *network
	to  *Engine
}

// lends runs a test with a worker of 8 slots that holds one step, has lent 3 to the engine that
// submits, and offers the 4 others.
func lends(t *testing.T, f func(t *testing.T, l *lending)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLending(t)
		for range askedOften {
			l.to.submitOne(t)
			time.Sleep(2 * time.Millisecond)
			l.scan(t)
			time.Sleep(2 * time.Millisecond)
		}
		if l.outside() == 0 {
			t.Fatal("nothing was lent to a process that leaves work in the queue")
		}
		f(t, l)
	})
}

func newLending(t *testing.T) *lending {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	net := &network{ears: map[string]func(store.Hint){}, sent: map[store.MessageKind]int{}}
	open := func(handle string) *Engine {
		return New(Config{Store: &station{Store: db, net: net, handle: handle}, Passive: true, Log: slog.New(slog.DiscardHandler)})
	}
	w := &offering{e: open("lender")}
	l := &lending{offering: w, net: net, to: open("borrower")}
	t.Cleanup(func() {
		l.to.Close()
		w.e.Close()
		time.Sleep(time.Second) // for what is on its way
		db.Close()
	})
	route := pawl.Route(pawl.DefaultWorkspace, workflow.DefaultQueue, "nobody", 0)
	self, release, err := w.e.Register(t.Context(), link.Registration{Worker: pawl.Worker{Workspace: pawl.DefaultWorkspace, Capacity: 8, Routes: []rowkey.Route{route}}, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	w.self = self
	w.offer = w.e.LendSlots(self, func(a *link.Assignment) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runs = append(w.runs, *a)
	}).(*Slots)
	t.Cleanup(w.offer.Withdraw)
	w.e.offers.placed(self.Key(), 0, 1)
	synctest.Wait()
	return l
}

// outside returns how many slots are lent.
func (l *lending) outside() int {
	l.offer.mu.Lock()
	defer l.offer.mu.Unlock()
	return l.offer.lent.slots
}

// scan claims what is in the queue, and ends it at once.
func (l *lending) scan(t *testing.T) []link.Assignment {
	t.Helper()
	free := l.offer.Unreserved(func() int { return 8 - len(l.handed()) })
	got := l.visit(t, link.Exchange{Free: free})
	for _, a := range got {
		l.visit(t, link.Exchange{Reports: []link.Report{success(a, "1")}})
	}
	return got
}

// operate offers what is free whenever a slot comes back, as a worker does, until the test has ended.
func (l *lending) operate(t *testing.T) {
	go func() {
		for {
			select {
			case <-l.offer.Bell():
				l.offer.Add(l.offer.Unreserved(func() int { return 8 - len(l.handed()) }))
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// compare compares whenever that is asked for, until the test has ended, and counts.
func (l *lending) compare(t *testing.T) *atomic.Int64 {
	count := new(atomic.Int64)
	go func() {
		for {
			select {
			case <-l.offer.Strays():
				count.Add(1)
				l.offer.Compare(context.Background(), func(c link.Stop) bool {
					return slices.ContainsFunc(l.handed(), func(a link.Assignment) bool {
						return a.Step.StepKey == c.StepKey && a.Step.Claims == c.Claim
					})
				})
			case <-t.Context().Done():
				return
			}
		}
	}()
	return count
}

// stepOf returns the step of a job of one step.
func (l *lending) stepOf(t *testing.T, id pawl.ID) *pawl.Step {
	t.Helper()
	steps, err := l.e.store.Steps(t.Context(), id.JobKey(), 0, 10)
	if err != nil || len(steps) != 1 {
		t.Fatal(steps, err)
	}
	return steps[0]
}

// TestALentSlotIsTakenInTheCommitOfASubmission: a job that another process submits is claimed for
// the worker in the commit that makes it, and begins without a hint of work (T3).
func TestALentSlotIsTakenInTheCommitOfASubmission(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		hints := l.net.hints()
		id := l.to.submitOne(t)
		if s := l.stepOf(t, id); s.State != lifecycle.StepInProgress || s.Worker != l.self.Key() || s.Claims != 1 {
			t.Errorf("after the submission the step is %s, of worker %d by claim %d; want it in progress", s.State, s.Worker, s.Claims)
		}
		time.Sleep(3 * time.Millisecond)
		if handed := l.handed(); len(handed) != 1 || handed[0].Step.Job != id.JobKey() {
			t.Fatalf("%v came to the worker, want the job", handed)
		}
		if l.net.hints() != hints {
			t.Error("a hint of work was sent, though nothing is in the queue")
		}
		in, failure, err := l.e.StepInput(t.Context(), &l.handed()[0])
		if err != nil || failure != nil || in.Key != "a" {
			t.Errorf("the input of the step: %v, %v, %v", in, failure, err)
		}
		l.visit(t, link.Exchange{Reports: []link.Report{success(l.handed()[0], "1")}})
		if s := l.stepOf(t, id); s.State != lifecycle.StepComplete {
			t.Errorf("after its report the step is %s", s.State)
		}
	})
}

// TestHalfOfTheFreeSlotsStay: loans never take more than half of what is free, and one hint alone
// gets none.
func TestHalfOfTheFreeSlotsStay(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		for range 20 {
			l.to.submitOne(t)
			time.Sleep(2 * time.Millisecond)
			l.offer.mu.Lock()
			if o := l.offer; o.lent.slots > o.slots+1 {
				t.Errorf("%d slots are lent, and %d are left", o.lent.slots, o.slots)
			}
			l.offer.mu.Unlock()
			l.scan(t)
			l.mu.Lock()
			runs := l.runs
			l.runs = nil
			l.mu.Unlock()
			for _, a := range runs {
				l.visit(t, link.Exchange{Reports: []link.Report{success(a, "1")}})
			}
		}
	})
}

// TestOneHintLendsNothing: a process that submits once and ends ties up no slot.
func TestOneHintLendsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLending(t)
		l.to.submitOne(t)
		time.Sleep(2 * time.Millisecond)
		l.scan(t)
		if l.outside() != 0 {
			t.Errorf("%d slots are lent after one hint", l.outside())
		}
	})
}

// TestALostMessageLosesNoStep: what was claimed for a worker that hears nothing of it is given back
// within 2 s, at the cost of no attempt: after the next message, or when the loan runs out.
func TestALostMessageLosesNoStep(t *testing.T) {
	for name, lose := range map[string]func(*store.Message) bool{
		"the message":         func(m *store.Message) bool { return m.Kind == store.MessageTake },
		"it and what follows": func(m *store.Message) bool { return m.From == "borrower" },
	} {
		t.Run(name, func(t *testing.T) {
			lends(t, func(t *testing.T, l *lending) {
				l.compare(t)
				l.net.set(func() { l.net.lose = lose })
				id := l.to.submitOne(t)
				time.Sleep(2 * time.Second)
				s := l.stepOf(t, id)
				if s.State == lifecycle.StepInProgress || len(l.handed()) != 0 {
					t.Fatalf("2 s after its message was lost the step is %s, and %v runs", s.State, l.handed())
				}
				if got := l.offer.Reserved(); l.outside() != 0 {
					t.Errorf("%d slots are reserved, %d of them lent", got, l.outside())
				}
				if s.Attempts != 0 {
					t.Errorf("it has %d attempts, want the one refunded", s.Attempts)
				}
			})
		})
	}
}

// TestAMessageThatComesTwice: a step begins once.
func TestAMessageThatComesTwice(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		l.net.set(func() { l.net.hold = func(m *store.Message) bool { return m.Kind == store.MessageTake } })
		l.to.submitOne(t)
		for range 3 {
			l.net.release()
		}
		time.Sleep(3 * time.Millisecond)
		if handed := l.handed(); len(handed) != 1 {
			t.Errorf("the step has begun %d times", len(handed))
		}
	})
}

// TestAMessageThatFitsNoLoan begins nothing, and leaves the loans as they are.
func TestAMessageThatFitsNoLoan(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		forged := pawl.StepKey{Job: 77, Ord: 1}
		var loan uint64
		l.offer.mu.Lock()
		for number := range l.offer.lent.all {
			loan = number
		}
		l.offer.mu.Unlock()
		before := l.outside()
		for _, from := range []string{"borrower", "forger"} {
			for _, count := range []int{-1 << 62, -1, 0, 1 << 20, math.MaxInt} {
				for _, kind := range []store.MessageKind{store.MessageTake, store.MessageEnd} {
					if from == "borrower" && count == 0 && kind == store.MessageEnd {
						continue // that is a true one
					}
					m := &store.Message{Kind: kind, From: from, Worker: l.self.Key(), Loan: loan, Count: count}
					if kind == store.MessageTake {
						m.Taken = []store.Taken{{Job: &pawl.Job{}, Step: &pawl.Step{StepKey: forged, Claims: 1}}}
					}
					l.net.deliver("lender", m)
					m.Loan++
					l.net.deliver("lender", m)
				}
			}
		}
		time.Sleep(3 * time.Millisecond)
		if n := l.outside(); n < 0 || n > before+1 {
			t.Errorf("%d slots are lent, %d before", n, before)
		}
		if handed := l.handed(); len(handed) != 0 {
			t.Errorf("%v has begun", handed)
		}
	})
}

// TestAHandOverThatComesLate: a step whose slot was taken back meanwhile takes another one or, if
// the worker offers none, is given back at once.
func TestAHandOverThatComesLate(t *testing.T) {
	for name, full := range map[string]bool{"free": false, "full": true} {
		t.Run(name, func(t *testing.T) {
			lends(t, func(t *testing.T, l *lending) {
				l.net.set(func() { l.net.hold = func(m *store.Message) bool { return m.From == "borrower" } })
				id := l.to.submitOne(t)
				l.offer.Recall()
				time.Sleep(recallGrace + time.Millisecond)
				if l.outside() != 0 {
					t.Errorf("%d slots are still lent", l.outside())
				}
				if full {
					l.offer.Close()
				}
				l.net.release()
				time.Sleep(5 * time.Millisecond)
				s, begun := l.stepOf(t, id), len(l.handed())
				if inProgress := s.State == lifecycle.StepInProgress; inProgress == full || begun == 1 == full {
					t.Errorf("the step is %s, and %d have begun", s.State, begun)
				}
			})
		})
	}
}

// TestAStepThatIsCanceledBeforeItBegins: what comes late begins, and the next beat says that it is to
// stop or that the worker no longer has it (T8).
func TestAStepThatIsCanceledBeforeItBegins(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		l.net.set(func() { l.net.hold = func(m *store.Message) bool { return m.Kind == store.MessageTake } })
		id := l.to.submitOne(t)
		if _, err := l.to.Cancel(t.Context(), id, pawl.Change{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		l.net.release()
		time.Sleep(3 * time.Millisecond)
		handed := l.handed()
		if len(handed) != 1 {
			t.Fatalf("%v has begun", handed)
		}
		c := link.Stop{StepKey: handed[0].Step.StepKey, Claim: 1}
		said, err := l.e.Beat(t.Context(), link.Pulse{Worker: l.self.Key(), Claims: []link.Stop{c}})
		if err != nil || !slices.Contains(said.Stops, c) && !slices.Contains(said.Taken, c) {
			t.Errorf("the beat says %+v, %v", said, err)
		}
	})
}

// TestADefinitionThatIsNew: a step of a workflow of which the worker's process has not heard begins
// once that is read.
func TestADefinitionThatIsNew(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		id := l.submit(t, "another", pawl.Submission{})
		time.Sleep(3 * time.Millisecond)
		if handed := l.handed(); len(handed) != 1 || handed[0].Step.Job != id.JobKey() || handed[0].Definition == nil {
			t.Errorf("%v has begun", handed)
		}
	})
}

// submit submits a job of a workflow with this name.
func (l *lending) submit(t *testing.T, name string, sub pawl.Submission) pawl.ID {
	t.Helper()
	def, err := workflow.Parse("test.yaml", []byte("name: "+name+"\nsteps: [{id: a, handler: nobody}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	sub.Definition, sub.Actor = def.Canonical(), "test"
	made, err := l.to.Submit(t.Context(), sub)
	if err != nil || made[0].Err != nil {
		t.Fatal(err, made)
	}
	return made[0].ID
}

// TestALargeJobIsNotLentTo: what does not fit into a message, as it is stored, goes through the queue,
// and asks for no slots.
func TestALargeJobIsNotLentTo(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		for _, sub := range []pawl.Submission{{Description: strings.Repeat("x", maxTold+1)}, {Metadata: []byte(`{"a":"` + strings.Repeat("<", maxTold/4) + `"}`)}} {
			if s := l.stepOf(t, l.submit(t, "one", sub)); s.State == lifecycle.StepInProgress {
				t.Error("it was claimed for the worker")
			}
		}
		time.Sleep(loanLasts + 10*time.Millisecond)
		for range 10 {
			l.submit(t, "one", pawl.Submission{Description: strings.Repeat("x", maxTold+1)})
			time.Sleep(2 * time.Millisecond)
			l.scan(t)
		}
		if l.outside() != 0 {
			t.Errorf("%d slots are lent to a process that cannot use them", l.outside())
		}
	})
}

// TestAnUnusedLoanIsNotRenewed: a worker that keeps finding the queue empty sends nothing to a process
// that takes nothing.
func TestAnUnusedLoanIsNotRenewed(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		before := l.net.of(store.MessageLend)
		for range 4 {
			time.Sleep(renewAfter / 2)
			l.scan(t)
		}
		if n := l.net.of(store.MessageLend) - before; n != 0 {
			t.Errorf("%d messages were sent", n)
		}
	})
}

// TestComparisonsEnd: claims whose messages are on their way do not make a worker compare for ever.
func TestComparisonsEnd(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		compared := l.compare(t)
		l.offer.mu.Lock()
		l.offer.mayStray()
		l.offer.mu.Unlock()
		for range 40 { // there is always one on its way
			l.to.submitOne(t)
			time.Sleep(strayAge / 5)
			l.mu.Lock()
			runs := l.runs
			l.runs = nil
			l.mu.Unlock()
			for _, a := range runs {
				l.visit(t, link.Exchange{Reports: []link.Report{success(a, "1")}})
			}
		}
		if n := compared.Load(); n == 0 || n > 2 {
			t.Errorf("it compared %d times, want once or twice", n)
		}
	})
}

// TestRecall: a worker that drains has its slots back as soon as the borrower has replied, and lends
// that process no others under the same loan.
func TestRecall(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		l.offer.Close()
		l.offer.Recall()
		l.offer.Recall()
		time.Sleep(3 * time.Millisecond)
		if n := l.offer.Reserved(); n != 0 || l.net.of(store.MessageRecall) != 1 || l.net.of(store.MessageEnd) != 1 {
			t.Errorf("%d slots are reserved, after %d recalls and %d replies", n, l.net.of(store.MessageRecall), l.net.of(store.MessageEnd))
		}
		id := l.to.submitOne(t)
		if s := l.stepOf(t, id); s.State == lifecycle.StepInProgress {
			t.Error("a recalled slot was taken")
		}
	})
}

// TestABorrowerThatEnds returns its slots at once; one that is idle, after half a second. Then nothing
// more is sent, though the worker keeps offering what is free.
func TestABorrowerThatEnds(t *testing.T) {
	for name, end := range map[string]func(*lending){
		"closed": func(l *lending) { l.to.Close() },
		"idle":   func(*lending) { time.Sleep(loanLasts) },
	} {
		t.Run(name, func(t *testing.T) {
			lends(t, func(t *testing.T, l *lending) {
				l.operate(t)
				end(l)
				time.Sleep(3 * time.Millisecond)
				if l.outside() != 0 {
					t.Errorf("%d slots are lent", l.outside())
				}
				before := l.net.of(store.MessageEnd) + l.net.of(store.MessageLend)
				time.Sleep(time.Minute)
				if after := l.net.of(store.MessageEnd) + l.net.of(store.MessageLend); after != before {
					t.Errorf("%d messages were sent by idle processes", after-before)
				}
			})
		})
	}
}

// TestALoanEndsBeforeItsLender: the borrower takes nothing any more when the lender takes its slots
// back because it has heard nothing.
func TestALoanEndsBeforeItsLender(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		l.net.set(func() { l.net.lose = func(m *store.Message) bool { return m.From == "borrower" } })
		time.Sleep(lenderWaits - time.Millisecond)
		if id := l.to.submitOne(t); l.stepOf(t, id).State == lifecycle.StepInProgress {
			t.Error("a slot was taken after the loan had run out")
		}
		time.Sleep(2 * time.Millisecond)
		if l.outside() != 0 {
			t.Errorf("%d slots are still lent", l.outside())
		}
	})
}

// TestAStrayIsFoundAtTheNextRegularComparison: even if nothing points to it, a worker that has lent
// slots finds what it holds and does not know.
func TestAStrayIsFoundAtTheNextRegularComparison(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		l.compare(t)
		time.Sleep(2 * time.Second) // the loans are over
		id := l.to.submitOne(t)
		l.e.offers.ring()
		got := l.visit(t, link.Exchange{Free: 1}) // and the worker does not know of it
		if len(got) != 1 || got[0].Step.Job != id.JobKey() {
			t.Fatalf("claimed %v", got)
		}
		time.Sleep(compareEvery + strayAge + time.Second)
		if s := l.stepOf(t, id); s.State == lifecycle.StepInProgress {
			t.Error("the worker still holds a step of which it does not know")
		}
	})
}

// TestAnEndBesideACommit: while what a commit has taken is still to be told, a loan that is recalled
// does not end: nothing that was taken goes astray.
func TestAnEndBesideACommit(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		l.to.offers.mu.Lock()
		b := l.to.offers.loans[0]
		l.to.offers.mu.Unlock()
		if !b.take() {
			t.Fatal("nothing can be taken")
		}
		b.note(store.Taken{Job: &pawl.Job{}, Step: &pawl.Step{Claims: 1}})
		l.offer.Recall()
		time.Sleep(3 * time.Millisecond)
		if n := l.net.of(store.MessageEnd); n != 0 {
			t.Errorf("%d loans have ended before the message", n)
		}
		b.tellTaken()
		time.Sleep(3 * time.Millisecond)
		if take, end := l.net.of(store.MessageTake), l.net.of(store.MessageEnd); take != 1 || end != 1 {
			t.Errorf("%d messages say what was taken, and %d that it was all", take, end)
		}
		if l.outside() != 0 {
			t.Errorf("%d slots are lent", l.outside())
		}
	})
}

// TestAMessageThatCrossesARecall does not put off that the slots are taken back.
func TestAMessageThatCrossesARecall(t *testing.T) {
	lends(t, func(t *testing.T, l *lending) {
		l.net.set(func() { l.net.lose = func(m *store.Message) bool { return m.Kind == store.MessageEnd } })
		l.to.submitOne(t)
		l.offer.Recall()
		time.Sleep(recallGrace + time.Millisecond)
		if l.outside() != 0 || len(l.handed()) != 1 {
			t.Errorf("%d slots are still lent, and %d steps have begun", l.outside(), len(l.handed()))
		}
	})
}

// TestFewWorkersLend: of many workers only as many lend to a process as it may need; those that do not
// know their place do not.
func TestFewWorkersLend(t *testing.T) {
	t.Parallel()
	count := func(peers int, d demand) (n int) {
		for place := range max(peers, 1) {
			o := &Slots{worker: &pawl.Worker{Capacity: 10}, place: place, peers: peers}
			if o.isLenderOf(&d) {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct{ peers, slots, want int }{{0, 100, 0}, {1, 4, 1}, {100, 4, 2}, {100, 50, 12}, {5, 1000, 5}} {
		if n := count(tt.peers, demand{by: "1a", place: 1<<32 - 7, slots: tt.slots}); n != tt.want {
			t.Errorf("of %d workers %d lend %d slots, want %d", tt.peers, n, tt.slots, tt.want)
		}
	}
}

// TestAskersAreBounded: those that have asked for nothing in a second make room.
func TestAskersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a askers
		for i := range 2 * maxAskers {
			a.asked(strconv.Itoa(i), 1)
			a.asked(strconv.Itoa(i), 1)
		}
		if n := len(a.list()); n != maxAskers {
			t.Errorf("%d processes ask, want %d", n, maxAskers)
		}
		time.Sleep(askedWithin + time.Millisecond)
		a.asked("new", 1)
		a.asked("new", 3)
		a.asked("none", 0)
		if list := a.list(); len(list) != 1 || list[0].by != "new" || list[0].slots != firstLoan {
			t.Errorf("%v ask", list)
		}
	})
}
