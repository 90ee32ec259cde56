package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestDelays: a failing record is tried again after 100 ms, then after twice the wait, and
// at least once a minute; jitter makes a wait up to half as long again.
func TestDelays(t *testing.T) { // K8
	t.Parallel()
	for tries, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		if got := delay(tries, 0, maxDelay); got != want {
			t.Errorf("after %d tries: %s, want %s", tries, got, want)
		}
	}
	for tries, longest := range map[int]time.Duration{0: 150 * time.Millisecond, 9: time.Minute, 10: time.Minute, 63: time.Minute, 1 << 30: time.Minute} {
		if got := delay(tries, 0.9999999, maxDelay); got > longest || got < longest-time.Microsecond {
			t.Errorf("after %d tries with jitter: %s, want %s", tries, got, longest)
		}
	}
	var d delays
	k, now := store.JobEntity(1), time.Unix(1000, 0)
	for tries := range 3 {
		wait := d.failed(k, 7, now, 0, maxDelay)
		if want := delay(tries, 0, maxDelay); wait != want || d.ready(k, 7, now.Add(wait-1)) || !d.ready(k, 7, now.Add(wait)) {
			t.Errorf("after failure %d: ready after %s, want %s", tries+1, wait, want)
		}
	}
	if !d.ready(k, 8, now) || !d.ready(store.JobEntity(2), 7, now) {
		t.Error("another mark of the job, or one of another job, waits too")
	}
	if wait := d.failed(k, 8, now, 0, maxDelay); wait != firstDelay {
		t.Errorf("another mark waits for %s, want %s", wait, firstDelay)
	}
	for i := range rowkey.Job(2 * maxDelays) {
		d.failed(store.JobEntity(i), 1, now, 0, maxDelay)
	}
	if len(d.of) > maxDelays {
		t.Errorf("%d failures are remembered, want at most %d", len(d.of), maxDelays)
	}
}

// TestScanRounds: queries follow one another until all is found that was due when the round
// began, no matter how much becomes due meanwhile, and then begin again.
func TestScanRounds(t *testing.T) { // K8
	t.Parallel()
	page := func(from int) *store.Agenda {
		a := &store.Agenda{Now: 5000}
		for i := range lookLimit {
			at := int64(from + i)
			a.Marked = append(a.Marked, store.Marked{At: at, Job: rowkey.Job(at)})
			a.Due = append(a.Due, store.Due{EntityKey: store.JobEntity(rowkey.Job(at)), At: at, Event: lifecycle.JobCancel})
		}
		return a
	}
	var s scan
	q := s.next(0)
	if d := cmp.Diff(store.LookQuery{Limit: lookLimit}, q); d != "" {
		t.Errorf("the first look (-want +got):\n%s", d)
	}
	if !s.note(q, page(1)) {
		t.Error("there is no more after a full page")
	}
	q = s.next(0)
	want := store.LookQuery{Limit: lookLimit, Marked: store.Marked{At: lookLimit, Job: lookLimit}, MarkedUntil: 5000,
		Due: store.Due{EntityKey: store.JobEntity(lookLimit), At: lookLimit, Event: lifecycle.JobCancel}, DueUntil: 5000}
	if d := cmp.Diff(want, q); d != "" {
		t.Errorf("the second look (-want +got):\n%s", d)
	}
	if busy := s.next(maxQueue); !s.note(busy, &store.Agenda{Now: 6000}) || s.q.Marked != want.Marked || s.q.DueUntil != 0 {
		t.Errorf("after a look without marks the next begins at %+v", s.q)
	}
	last := page(lookLimit + 1)
	last.Now, last.Marked, last.Due = 7000, last.Marked[:3], nil
	if !s.note(s.next(0), last) {
		t.Error("what was marked during the round is not looked for at its end")
	}
	if d := cmp.Diff(store.LookQuery{Limit: lookLimit}, s.next(0)); d != "" {
		t.Errorf("the next round begins elsewhere (-want +got):\n%s", d)
	}
	if s.note(s.next(0), &store.Agenda{Now: 8000, Marked: []store.Marked{{At: 1, Job: 1}}}) {
		t.Error("there is more after a round of one page")
	}
}

// TestPages: pending jobs are read page by page, fast on request, and then not again for
// four times as long as that took.
func TestPages(t *testing.T) { // J7
	t.Parallel()
	full := make([]store.Ranked, lookLimit)
	full[lookLimit-1] = store.Ranked{Rank: 3, Job: 9}
	begin := time.Unix(1000, 0)
	var p pages
	if p.begin(begin); p.more(full, begin) || p.after != full[lookLimit-1] {
		t.Error("a slow round hurries, or does not go on behind the page")
	}
	p.asked = true
	if at := p.begin(begin); at != (store.Ranked{}) || !p.more(full, begin) || p.begin(begin) != full[lookLimit-1] {
		t.Errorf("a fast round begins at %+v, or does not hurry", at)
	}
	if p.more(nil, begin.Add(time.Second)); p.fast || p.after != (store.Ranked{}) {
		t.Error("it does not end")
	}
	for wait, fast := range map[time.Duration]bool{4 * time.Second: false, 5 * time.Second: true} {
		again := p
		again.asked = true
		if again.begin(begin.Add(wait)); again.fast != fast {
			t.Errorf("after %s: fast %t, want %t", wait, again.fast, fast)
		}
	}
}

// TestDueOfMarks: a commit sets the time of marks, and clears it in records that are no
// longer marked for the evaluator.
func TestDueOfMarks(t *testing.T) { // K8
	t.Parallel()
	for _, tt := range []struct {
		mark      pawl.Mark
		at, tries int
		wantAt    int
		wantTries int
	}{
		{pawl.Attention, 0, 0, 100, 0},
		{pawl.Attention, 50, 2, 50, 2},
		{pawl.Attention, 500, 3, 500, 3},
		{pawl.Clear, 500, 3, 0, 0},
		{pawl.Waiting, 50, 1, 0, 0},
		{pawl.Blocked, 50, 1, 0, 0},
	} {
		at, tries := int64(tt.at), tt.tries
		if due(100, tt.mark, &at, &tries); at != int64(tt.wantAt) || tries != tt.wantTries {
			t.Errorf("%+v: %d, %d", tt, at, tries)
		}
	}
}
