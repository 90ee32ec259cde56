package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// A note is what an entry says beside the table.
type note struct {
	State  string
	Action supervisor.ActionStatus
}

func readNote(e audit.Entry) (n note) {
	if err := json.Unmarshal(e.Metadata, &n); err != nil {
		panic(err)
	}
	return n
}

// trailOf returns the entries of an entity.
func trailOf(j supervisor.Trailer, entity string) []audit.Entry {
	trail, err := j.Trail(context.Background(), entity)
	if err != nil {
		panic(err)
	}
	return trail
}

// conform holds a journal to its contract.
func conform(t *testing.T, j supervisor.Journal) {
	t.Helper()
	ctx := context.Background()
	add := entryOf(audit.Entry{}, "", lifecycle.ServiceStopped, lifecycle.ServiceAdd)
	start := entryOf(add, lifecycle.ServiceStopped, lifecycle.ServiceTryingToStart, lifecycle.ServiceStart)
	remove := entryOf(add, lifecycle.ServiceStopped, lifecycle.ServiceRemoved, lifecycle.ServiceRemove)
	if e, err := j.Last(ctx, "sv_web"); err != nil || e.Sequence != 0 {
		t.Errorf("last of nothing: %+v, %v", e, err)
	}
	for _, step := range []struct {
		name  string
		entry audit.Entry
		want  error
	}{
		{"a gap", start, supervisor.ErrConflict},
		{"the first", add, nil},
		{"again", add, nil},
		{"the next", start, nil},
		{"again, its outcome being unknown", start, nil},
		{"another in its place", remove, supervisor.ErrConflict},
		{"an old one", add, supervisor.ErrConflict},
	} {
		if err := j.Append(ctx, step.entry); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	if e, err := j.Last(ctx, "sv_web"); err != nil || e.Hash != start.Hash || !bytes.Equal(e.Metadata, start.Metadata) {
		t.Errorf("last: %+v, %v", e, err)
	}
}

func entryOf(before audit.Entry, from, to machine.State, event machine.Event) audit.Entry {
	e := audit.Entry{Entity: "sv_web", Sequence: before.Sequence + 1, From: from, To: to, Event: event,
		Actor: "test", Metadata: []byte(`{"state":"` + string(to) + `"}`), At: 1}
	e.Seal(before.Hash)
	return e
}

func TestMemoryJournal(t *testing.T) {
	t.Parallel()
	conform(t, &supervisor.MemoryJournal{})
}

func open(t *testing.T, path string) *supervisor.FileJournal {
	t.Helper()
	j, err := supervisor.OpenFileJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestFileJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "services.jsonl")
	j := open(t, path)
	conform(t, j)
	if _, err := supervisor.OpenFileJournal(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v", err)
	}
	_ = j.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"whole": string(whole), "torn": string(whole) + `{"entity":"sv_web","seq`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, path)
		if e, err := j.Last(context.Background(), "sv_web"); err != nil || e.Sequence != 2 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		_ = j.Close()
	}
	edited := strings.Replace(string(whole), `"actor":"test"`, `"actor":"nobody"`, 1)
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := supervisor.OpenFileJournal(path); err == nil || !strings.Contains(err.Error(), path+": line 1: ") || !strings.Contains(err.Error(), "restore a copy") {
		t.Errorf("error %v, want one that names file and line, and says what to do", err)
	}
}

func TestFileJournalConcurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "services.jsonl")
	j := open(t, path)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var before audit.Entry
			for range 5 {
				e := audit.Entry{Entity: fmt.Sprintf("sv_%d", i), Sequence: before.Sequence + 1, Event: lifecycle.ServiceShift,
					From: lifecycle.ServiceStopped, To: lifecycle.ServiceStopped, Actor: "test"}
				if e.Sequence == 1 {
					e.From, e.Event = "", lifecycle.ServiceAdd
				}
				e.Seal(before.Hash)
				if err := j.Append(context.Background(), e); err != nil {
					t.Error(err)
				}
				before = e
			}
		})
	}
	all.Wait()
	_ = j.Close()
	again := open(t, path)
	for i := range 8 {
		if e, err := again.Last(context.Background(), fmt.Sprintf("sv_%d", i)); err != nil || e.Sequence != 5 {
			t.Errorf("service %d: %+v, %v", i, e, err)
		}
	}
}

// S3: an entry that fails changes nothing, and is tried again.
func TestFailedCommitChangesNothing(t *testing.T) {
	j := &slowJournal{}
	bubble(t, supervisor.Config{Journal: j}, func(h *hall) {
		p := &plant{id: "web"}
		h.add(p, supervisor.Options{})
		j.broken.Store(&errTest)
		pass(30 * time.Second)
		h.in("web", lifecycle.ServiceStopped)
		if st, _ := h.s.Status("web"); p.began("start") != 0 || !strings.Contains(st.Waits, "the journal, which failed") {
			t.Errorf("%d starts, waits for %q", p.began("start"), st.Waits)
		}
		j.broken.Store(nil)
		pass(time.Minute)
		h.in("web", lifecycle.ServiceRunning)
	})
}

// S12: state, action and outcome are in the trail, and the trail is in order.
func TestTrail(t *testing.T) {
	j := &supervisor.MemoryJournal{}
	bubble(t, supervisor.Config{Journal: j}, func(h *hall) {
		h.add(&plant{id: "web"}, supervisor.Options{})
		pass(time.Second)
		if _, err := h.s.Remove(context.Background(), "web"); err != nil {
			t.Error(err)
		}
		h.add(&plant{id: "web"}, supervisor.Options{})
		pass(time.Second)
		var events []string
		trail := trailOf(j, supervisor.Entity("web", 1))
		for _, e := range trail {
			n := readNote(e)
			events = append(events, fmt.Sprintf("%s %s %s %t", e.Event, n.State, n.Action.ActionName, n.Action.InProgress))
		}
		want := []string{
			"add stopped  false",
			"start trying_to_start  false",
			"act trying_to_start start true",
			"settle trying_to_start start false",
			"started running start false",
			"stop trying_to_stop start false",
			"act trying_to_stop stop true",
			"settle trying_to_stop stop false",
			"stopped stopped stop false",
			"remove stopped stop false",
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("trail (-want +got):\n%s", diff)
		}
		if r, err := audit.Replay(lifecycle.Service, trail); err != nil || r.State != lifecycle.ServiceRemoved {
			t.Errorf("replayed to %+v, %v", r, err)
		}
		next := trailOf(j, supervisor.Entity("web", 2))
		if len(next) != 5 {
			t.Fatalf("the second life has %d entries, want 5", len(next))
		}
		if a := readNote(next[2]).Action; a.Fence != 3 || a.ID != "web/3" { // the first life had two
			t.Errorf("the second life begins with %+v, want another ID and a higher fence", a)
		}
	})
}

// Two supervisors of one service: the second writer is refused, and lets go.
func TestConflictHoldsTheService(t *testing.T) {
	j := &supervisor.MemoryJournal{}
	var escalated []string
	c := supervisor.Config{Journal: j, Hooks: supervisor.Hooks{Escalated: func(_ supervisor.Identity, reason string) { escalated = append(escalated, reason) }}}
	bubble(t, c, func(h *hall) {
		p := &plant{id: "web", start: takes(10 * time.Second)}
		h.add(p, supervisor.Options{})
		pass(time.Second)
		trail := trailOf(j, "sv_web")
		if err := j.Append(context.Background(), entryAfter(trail[len(trail)-1])); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if st, _ := h.s.Status("web"); len(escalated) != 1 || !strings.Contains(st.Waits, "another supervisor") {
			t.Errorf("escalated %v, waits for %q", escalated, st.Waits)
		}
		if r := h.stop(); len(r.Left) != 0 || p.began("stop") != 0 {
			t.Errorf("report %+v, %d stops", r, p.began("stop"))
		}
	})
}

func entryAfter(before audit.Entry) audit.Entry {
	e := before
	e.Sequence, e.From, e.Event, e.Reason = before.Sequence+1, before.To, lifecycle.ServiceShift, "somebody else"
	e.To = e.From
	e.Seal(before.Hash)
	return e
}
