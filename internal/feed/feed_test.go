package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A source is a feed in memory: commits become visible in the order of the list, by numbers of
// their own, as on PostgreSQL.
type source struct {
	mu     sync.Mutex
	events []store.Event // visible ones, in the order of their numbers
	open   []uint64      // numbers below the highest that are not visible
	trails map[store.EntityKey][]audit.Entry
	reads  int
	fails  error
}

func newSource() *source { return &source{trails: map[store.EntityKey][]audit.Entry{}} }

// count returns how often it was read.
func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// fail makes every read fail, or none if err is nil.
func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

// commit makes an entry of an entity visible, with its number.
func (s *source) commit(number uint64, k store.EntityKey, at int64, event machine.Event, to machine.State) store.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := audit.Entry{Entity: fmt.Sprint(k.Job), Sequence: int64(len(s.trails[k]) + 1), Event: event, To: to, At: at, Actor: "a"}
	s.trails[k] = append(s.trails[k], e)
	ev := store.Event{Entry: store.Entry{EntityKey: k, Entry: e}, Commit: number, Workspace: "default", Name: "flow"}
	s.events = append(s.events, ev)
	slices.SortStableFunc(s.events, func(a, b store.Event) int { return int(int64(a.Commit) - int64(b.Commit)) })
	s.open = slices.DeleteFunc(s.open, func(n uint64) bool { return n == number })
	return ev
}

// Since implements store.Feed as PostgreSQL does.
func (s *source) Since(_ context.Context, after store.FeedToken, limit int) (*store.FeedBatch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.fails != nil {
		return nil, s.fails
	}
	now := s.place(1 << 60)
	switch {
	case after.Epoch == 0:
		return &store.FeedBatch{Token: now, All: true}, nil
	case after.Epoch != 7:
		return nil, &store.GapError{Reason: store.GapOther, Now: now}
	}
	b, n, last := &store.FeedBatch{All: true}, 0, after.Next
	for _, e := range s.events {
		if after.Sees(e.Commit) {
			continue
		}
		if e.Commit >= after.Next {
			if n == limit && e.Commit >= last {
				b.All = false
				break
			}
			if e.Commit >= last {
				n, last = n+1, e.Commit+1
			}
		}
		b.Events = append(b.Events, e)
	}
	b.Token = s.place(last)
	return b, nil
}

// place is the snapshot of now, up to a number.
func (s *source) place(end uint64) store.FeedToken {
	t := store.FeedToken{Epoch: 7, At: 1}
	for _, e := range s.events {
		if e.Commit < end {
			t.Next = max(t.Next, e.Commit+1)
		}
	}
	for _, n := range s.open {
		if n < t.Next {
			t.Open = append(t.Open, n)
		}
	}
	return t
}

// Trail implements Source.
func (s *source) Trail(_ context.Context, k store.EntityKey, after int64, limit int) ([]audit.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.trails[k]
	list = list[min(int(after), len(list)):]
	return slices.Clone(list[:min(limit, len(list))]), nil
}

// Definition is for definitions.Cache.
func (s *source) Definition(context.Context, rowkey.Definition) (*pawl.Definition, error) {
	return nil, store.ErrNotFound
}

func newHub(t *testing.T, s *source, ring int) *Hub {
	h := New(Config{Source: s, Definitions: definitions.New(s), Ring: ring, Page: 5})
	t.Cleanup(h.Close)
	return h
}

func open(t *testing.T, h *Hub, after string) *Stream {
	t.Helper()
	s, err := h.Open(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// next returns what a stream passes on: "hello", "gap REASON", or "ENTITY/SEQUENCE" of each
// event with its From.
func next(t *testing.T, s *Stream) (list []string, token string) {
	t.Helper()
	b, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.Notice != "" {
		list = append(list, string(b.Notice)+b.Gap)
	}
	for _, e := range b.Events {
		from := "-"
		if e.From != nil {
			from = string(*e.From)
		}
		list = append(list, fmt.Sprintf("%s/%d %s", e.Entity, e.Sequence, from))
	}
	return list, b.Token
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func job(n int64) store.EntityKey { return store.JobEntity(rowkey.Job(n)) }

func TestStreamOfNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.commit(1, job(1), 1, lifecycle.JobSubmit, lifecycle.JobSubmitted)
		h := newHub(t, s, 100)
		a := open(t, h, "")
		got, begun := next(t, a)
		want(t, got, "hello")
		s.commit(2, job(1), 2, lifecycle.JobValidate, lifecycle.JobPending)
		h.Wake()
		before := time.Now()
		got, token := next(t, a)
		want(t, got, "1/2 SUBMITTED")
		if took := time.Since(before); took > 20*time.Millisecond {
			t.Errorf("a hint takes %v", took)
		}
		s.commit(3, job(2), 2, lifecycle.JobSubmit, lifecycle.JobSubmitted)
		got, _ = next(t, a) // no hint: by the poll
		want(t, got, "2/1 -")

		b := open(t, h, token) // from the ring
		reads := s.count()
		got, _ = next(t, b)
		want(t, got, "2/1 -")
		if s.count() != reads {
			t.Error("a place in the ring was read again")
		}
		c := open(t, h, begun) // by itself
		got, _ = next(t, c)
		want(t, got, "1/2 SUBMITTED", "2/1 -")
		s.commit(4, job(2), 3, lifecycle.JobValidate, lifecycle.JobPending)
		for _, stream := range []*Stream{b, c} {
			got, _ = next(t, stream)
			want(t, got, "2/2 SUBMITTED")
			if stream.Token() == "" {
				t.Error("a stream that has everything has no place")
			}
		}
	})
}

// TestNoReadsWithoutStreams: a hub reads while somebody listens, and a little longer.
func TestNoReadsWithoutStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := newHub(t, s, 100)
		if time.Sleep(time.Minute); s.count() != 0 {
			t.Errorf("%d reads before there is a stream", s.count())
		}
		a, err := h.Open(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s.count() < 9 || s.count() > 13 {
			t.Errorf("%d reads in 10 s", s.count())
		}
		a.Close()
		time.Sleep(linger + 2*time.Second)
		reads := s.count()
		if time.Sleep(time.Minute); s.count() != reads {
			t.Errorf("%d reads without a stream", s.count()-reads)
		}
		s.commit(1, job(1), 1, lifecycle.JobSubmit, lifecycle.JobSubmitted)
		b := open(t, h, "")
		got, _ := next(t, b)
		want(t, got, "hello")
		s.commit(2, job(1), 2, lifecycle.JobValidate, lifecycle.JobPending)
		got, _ = next(t, b)
		want(t, got, "1/2 SUBMITTED")
	})
}

// TestGaps: a stream goes on behind a gap.
func TestGaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := newHub(t, s, 10)
		slow := open(t, h, "")
		for token, reason := range map[string]string{"nonsense": "unreadable", store.FeedToken{Epoch: 8}.String(): "other"} {
			a := open(t, h, token)
			got, after := next(t, a)
			want(t, got, "gap"+reason)
			if after == "" {
				t.Errorf("%s: a gap has no place to go on from", token)
			}
		}
		for n := range int64(30) {
			s.commit(uint64(n+1), job(n), n, lifecycle.JobSubmit, lifecycle.JobSubmitted)
		}
		time.Sleep(2 * time.Second)
		got, _ := next(t, slow)
		want(t, got, "hello")
		got, _ = next(t, slow)
		want(t, got, "gapbehind")
		s.commit(31, job(1), 31, lifecycle.JobValidate, lifecycle.JobPending)
		got, _ = next(t, slow)
		want(t, got, "1/2 SUBMITTED")
		if st := h.Stats(); st.Gaps != 3 || st.Streams != 3 || st.Lag > 2*time.Second {
			t.Errorf("%+v", st)
		}
	})
}

// TestOvertaking: a commit with a lower number that becomes visible later is passed on, and
// pages keep an entity's order though its later commit has the lower number.
func TestOvertaking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := newHub(t, s, 1000)
		live := open(t, h, "")
		_, begun := next(t, live)
		s.mu.Lock()
		s.open = []uint64{2, 3}
		s.mu.Unlock()
		for n := range uint64(12) {
			if n+1 != 2 && n+1 != 3 {
				s.commit(n+1, job(int64(n)+1), int64(n), lifecycle.JobSubmit, lifecycle.JobSubmitted)
			}
		}
		var all []string
		for len(all) < 10 {
			got, _ := next(t, live)
			all = append(all, got...)
		}
		// Job 12 was submitted by commit 12, and moved by commit 3, which had waited for that.
		s.commit(3, job(12), 2, lifecycle.JobValidate, lifecycle.JobPending)
		got, _ := next(t, live)
		want(t, got, "12/2 SUBMITTED")
		all = append(all, got...)

		again := open(t, h, begun)
		var read []string
		held := 0
		for len(read) < len(all) {
			got, token := next(t, again)
			if read = append(read, got...); token == "" {
				held++
			}
		}
		if slices.Index(read, "12/2 SUBMITTED") < slices.Index(read, "12/1 -") {
			t.Errorf("the order of an entity is lost: %v", read)
		}
		slices.Sort(all)
		slices.Sort(read)
		want(t, read, all...)
		if held == 0 {
			t.Error("while an event waited for its predecessor, there was a place to go on from")
		}
		s.commit(2, job(2), 100, lifecycle.JobSubmit, lifecycle.JobSubmitted)
		for _, stream := range []*Stream{live, again} {
			got, _ = next(t, stream)
			want(t, got, "2/1 -")
		}
	})
}

// TestFailures: a hub goes on when the store can be read again; one that never could be read
// is an error.
func TestFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		down := errors.New("no database")
		s.fail(down)
		h := newHub(t, s, 100)
		if _, err := h.Open(t.Context(), ""); !errors.Is(err, down) {
			t.Errorf("opened: %v", err)
		}
		s.fail(nil)
		a := open(t, h, "")
		next(t, a)
		s.fail(down)
		s.commit(1, job(1), 1, lifecycle.JobSubmit, lifecycle.JobSubmitted)
		time.Sleep(10 * time.Second)
		if lag := h.Stats().Lag; lag < 9*time.Second {
			t.Errorf("the lag is %v", lag)
		}
		s.fail(nil)
		got, _ := next(t, a)
		want(t, got, "1/1 -")
		h.Close()
		if _, err := a.Next(t.Context()); pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("of a closed hub: %v", err)
		}
		if _, err := h.Open(t.Context(), ""); pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("a closed hub opens a stream: %v", err)
		}
	})
}
