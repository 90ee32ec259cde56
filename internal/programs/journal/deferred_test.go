package journal

import (
	"context"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// A failing journal is on a disk that is full for a while.
type failing struct {
	supervisor.MemoryJournal
	full atomic.Bool
}

func (j *failing) Append(ctx context.Context, e audit.Entry) error {
	if j.full.Load() {
		return syscall.ENOSPC
	}
	return j.MemoryJournal.Append(ctx, e)
}

// (S3, S14) Deferred entries are compacted when there are too many, and are still a valid
// trail: nothing of the newer half is missing, and a later entry follows the last of them.
func TestDeferredIsCompacted(t *testing.T) {
	t.Parallel()
	j := &failing{}
	o := &Deferred{Journal: j, Log: slog.New(slog.DiscardHandler)}
	e := audit.Entry{Entity: "sv_web", Sequence: 1, To: lifecycle.ServiceStopped, Event: lifecycle.Service.Create, Actor: "test", Metadata: []byte("{}"), At: 1}
	e.Seal(audit.Hash{})
	give := func() {
		t.Helper()
		if err := o.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	give()
	j.full.Store(true)
	round := []machine.Event{lifecycle.ServiceStart, lifecycle.ServiceHasStarted, lifecycle.ServiceStop, lifecycle.ServiceHasStopped}
	const n = 10 * maxDeferred
	move := func(i int) {
		t.Helper()
		next := audit.Entry{Entity: e.Entity, Sequence: e.Sequence + 1, From: e.To, Event: round[i%len(round)], Actor: "test", Metadata: []byte("{}"), At: e.At + 1}
		var err error
		if next.To, err = lifecycle.Service.Next(next.From, next.Event); err != nil {
			t.Fatal(err)
		}
		next.Seal(e.Hash)
		e = next
		give()
	}
	for i := range n {
		move(i)
	}
	u := o.Unrecorded("web")
	if u.Moves > maxDeferred || u.Moves < maxDeferred/2 || u.Moves+u.LeftOut != n || u.Error == "" {
		t.Errorf("unrecorded: %+v", u)
	}
	j.full.Store(false)
	if err := o.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 10 { // its sequence numbers now differ from the trail's
		move(n + i)
	}
	trail, err := j.Trail(t.Context(), "sv_web")
	if err != nil {
		t.Fatal(err)
	}
	replayed, err := audit.Replay(lifecycle.Service, trail)
	if err != nil || replayed.State != e.To || trail[len(trail)-1].At != e.At || len(trail) != 1+u.Moves+10 {
		t.Errorf("%d entries, %+v, %v", len(trail), replayed, err)
	}
	if left := o.Unrecorded("web"); left == nil || left.Moves != 0 || left.LeftOut != u.LeftOut {
		t.Errorf("unrecorded: %+v", left)
	}
}

// A stuck journal is on a disk that hangs for a while.
type stuck struct {
	supervisor.MemoryJournal
	until chan struct{}
}

func (j *stuck) Append(ctx context.Context, e audit.Entry) error {
	<-j.until
	return j.MemoryJournal.Append(ctx, e)
}

// (S3, S14) A journal that hangs delays a transition by journalTimeout, once, and has all
// entries when it no longer hangs.
func TestDeferredByAJournalThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &stuck{until: make(chan struct{})}
		o := &Deferred{Journal: j, Log: slog.New(slog.DiscardHandler)}
		began := time.Now()
		var last audit.Hash
		for i := range int64(3) {
			e := audit.Entry{Entity: "sv_web", Sequence: i + 1, Actor: "test", Metadata: []byte("{}"), At: i}
			e.Seal(last)
			last = e.Hash
			if err := o.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != journalTimeout {
			t.Errorf("it took %s", took)
		}
		if u := o.Unrecorded("web"); u == nil || u.Moves != 3 {
			t.Errorf("unrecorded: %+v", u)
		}
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			o.Run(ctx)
		}()
		time.Sleep(2 * flushInterval)
		close(j.until)
		time.Sleep(2 * flushInterval)
		if u := o.Unrecorded("web"); u != nil {
			t.Errorf("unrecorded: %+v", u)
		}
		stop()
		<-over
		if trail, err := j.Trail(t.Context(), "sv_web"); err != nil || len(trail) != 3 {
			t.Errorf("%d entries, %v", len(trail), err)
		}
	})
}
