package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// fillTrail appends entries to a trail: an add, then shifts.
func fillTrail(t *testing.T, j supervisor.Journal, entity string, n int) {
	t.Helper()
	ctx := context.Background()
	last, err := j.Last(ctx, entity)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		e := audit.Entry{Entity: entity, Sequence: last.Sequence + 1, From: last.To, To: lifecycle.ServiceStopped,
			Event: lifecycle.ServiceShift, Actor: "test", Metadata: []byte(`{"state":"stopped"}`), At: last.Sequence}
		if last.Sequence == 0 {
			e.Event = lifecycle.ServiceAdd
		}
		e.Seal(last.Hash)
		if err := j.Append(ctx, e); err != nil {
			t.Fatal(err)
		}
		last = e
	}
}

// endTrail ends the life of a service that is stopped.
func endTrail(t *testing.T, j supervisor.Journal, entity string) {
	t.Helper()
	last, err := j.Last(context.Background(), entity)
	if err != nil {
		t.Fatal(err)
	}
	e := audit.Entry{Entity: entity, Sequence: last.Sequence + 1, From: last.To, To: lifecycle.ServiceRemoved,
		Event: lifecycle.ServiceRemove, Actor: "test", Metadata: []byte(`{"state":"stopped"}`), At: last.At}
	e.Seal(last.Hash)
	if err := j.Append(context.Background(), e); err != nil {
		t.Fatal(err)
	}
}

func openKeeping(t *testing.T, path string, k supervisor.Keep) *supervisor.FileJournal {
	t.Helper()
	j, err := supervisor.OpenFileJournalKeeping(path, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// S12: a journal is bounded while it is written and when it is opened, continues, and
// what is left proves itself.
func TestFileJournalIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "services.jsonl")
	keep := supervisor.Keep{Entries: 5, Lives: 1}
	j := openKeeping(t, path, keep)
	fillTrail(t, j, "sv_quiet", 2)
	fillTrail(t, j, "sv_web", 100)
	whole := trailOf(j, "sv_web")
	if n := len(whole); n < 5 || n > 14 || whole[n-1].Sequence != 100 {
		t.Errorf("%d entries are left", n)
	}
	for life := 1; life <= 4; life++ {
		fillTrail(t, j, supervisor.Entity("task", life), 3)
		endTrail(t, j, supervisor.Entity("task", life))
	}
	_ = j.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 40 {
		t.Errorf("the file has %d lines", n)
	}
	replayed, err := audit.VerifyCut(bytes.NewReader(text), nil)
	if err != nil || replayed["sv_web"].Seq != 100 || replayed["sv_quiet"].Seq != 2 {
		t.Errorf("replayed %+v, %v", replayed, err)
	}
	j = openKeeping(t, path, supervisor.Keep{Entries: 1, Lives: 1})
	for entity, want := range map[string]int64{"sv_web": 100, "sv_quiet": 2, "sv_task~4": 4} {
		if trail := trailOf(j, entity); len(trail) != 1 || trail[0].Sequence != want {
			t.Errorf("%s: %+v, want the last entry", entity, trail)
		}
	}
	first, last, err := j.Lives(context.Background(), "task")
	if first != 3 || last != 4 || err != nil {
		t.Errorf("lives %d to %d, %v: want the last two", first, last, err)
	}
	fillTrail(t, j, "sv_web", 3) // it continues
	if _, err := supervisor.OpenFileJournal(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the lock was lost: %v", err)
	}
	for _, k := range []supervisor.Keep{{Entries: -2}, {Lives: -2}} {
		if _, err := supervisor.OpenFileJournalKeeping(path, k); !errors.Is(err, supervisor.ErrInvalid) {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// Entries that come while the file is written anew are in the new one.
func TestFileJournalShrinksBesideWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "services.jsonl")
	keep := supervisor.Keep{Entries: 3}
	j := openKeeping(t, path, keep)
	var all sync.WaitGroup
	for _, entity := range []string{"sv_a", "sv_b", "sv_c", "sv_d"} {
		all.Go(func() { fillTrail(t, j, entity, 60) })
		all.Go(func() {
			for range 60 {
				trail := trailOf(j, entity)
				for i := 1; i < len(trail); i++ {
					if trail[i].Sequence != trail[i-1].Sequence+1 {
						t.Errorf("entry %d follows %d", trail[i].Sequence, trail[i-1].Sequence)
					}
				}
			}
		})
	}
	all.Wait()
	_ = j.Close()
	j = openKeeping(t, path, keep)
	for _, entity := range []string{"sv_a", "sv_b", "sv_c", "sv_d"} {
		if e, err := j.Last(context.Background(), entity); err != nil || e.Sequence != 60 {
			t.Errorf("%s: %+v, %v", entity, e, err)
		}
	}
}

// A crash at any moment of the rewriting leaves the old file or the new one, and
// perhaps a beginning of the new one beside the old.
func TestFileJournalRewritingCrashes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "services.jsonl")
	j := openKeeping(t, path, supervisor.Keep{Entries: -1})
	fillTrail(t, j, "sv_web", 20)
	_ = j.Close()
	if err := os.WriteFile(path+".new", []byte(`{"cut":"sv_web","seq`), 0o600); err != nil {
		t.Fatal(err)
	}
	j = openKeeping(t, path, supervisor.Keep{Entries: 4})
	if trail := trailOf(j, "sv_web"); len(trail) != 4 || trail[3].Sequence != 20 {
		t.Errorf("trail %+v", trail)
	}
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("what a crash has left is still there")
	}
}

// Where the file cannot be written anew it grows on.
func TestFileJournalCannotShrink(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "services.jsonl")
	if err := os.MkdirAll(filepath.Join(path+".new", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	j := openKeeping(t, path, supervisor.Keep{Entries: 2})
	fillTrail(t, j, "sv_web", 20)
	if n := len(trailOf(j, "sv_web")); n != 20 {
		t.Errorf("%d entries, want all", n)
	}
	if err := os.RemoveAll(path + ".new"); err != nil {
		t.Fatal(err)
	}
	fillTrail(t, j, "sv_web", 40)
	if n := len(trailOf(j, "sv_web")); n > 5 {
		t.Errorf("%d entries, though it could be written anew", n)
	}
}

// S12: the trail has who asked for it, all lives are returned in order, and a life
// whose beginnings are gone continues with a higher fence.
func TestTrailsAndActors(t *testing.T) {
	j := &supervisor.MemoryJournal{}
	var actors []string
	c := supervisor.Config{Journal: j, Actor: "keeper", Hooks: supervisor.Hooks{Transition: func(_ supervisor.Identity, tr supervisor.Transition) {
		actors = append(actors, tr.Actor)
	}}}
	bubble(t, c, func(h *hall) {
		p := &plant{id: "web"}
		p.next = func(state string, n snapshot) *decision {
			if state == "running" && n.Desired.Down {
				return &decision{State: own{p: p, is: lifecycle.ServiceTryingToStop}, Actor: "ann", Reason: "to save power"}
			}
			return nil
		}
		x := h.add(p, supervisor.Options{})
		pass(time.Second)
		_ = x.SetSpec(want{Down: true})
		pass(time.Second)
		if _, err := h.s.Remove(context.Background(), "web"); err != nil {
			t.Fatal(err)
		}
		h.add(&plant{id: "web"}, supervisor.Options{})
		pass(time.Second)
		all, err := supervisor.Trails(context.Background(), j, "web")
		if err != nil || len(all) != len(trailOf(j, "sv_web"))+len(trailOf(j, "sv_web~2")) || all[0].Sequence != 1 {
			t.Fatalf("%d entries, %v", len(all), err)
		}
		var asked []string
		for _, e := range all {
			if e.Actor != "keeper" {
				asked = append(asked, e.Actor+" "+string(e.Event)+": "+e.Reason)
			}
		}
		if len(asked) != 1 || asked[0] != "ann stop: to save power" || actors[2] != "ann" {
			t.Errorf("asked %v, told %v", asked, actors)
		}
		if none, err := supervisor.Trails(context.Background(), j, "nobody"); len(none) != 0 || err != nil {
			t.Errorf("trails of nobody: %v, %v", none, err)
		}
	})
}

// S12: a service whose first lives are no longer in the journal continues with the next
// number and a higher fence.
func TestFencesOutliveTheirLives(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "services.jsonl")
	var fence uint64
	for life := 1; life <= 4; life++ {
		j := openKeeping(t, path, supervisor.Keep{Entries: 2, Lives: -1})
		if life == 4 { // what went before is gone, and the last of it had no action
			_ = j.Close()
			j = openKeeping(t, path, supervisor.Keep{Entries: 1, Lives: 1})
		}
		s, err := supervisor.New(supervisor.Config{Journal: j, Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan supervisor.Report, 1)
		go func() {
			r, _ := s.Run(ctx)
			done <- r
		}()
		spec := want{Down: life == 3}
		x, err := supervisor.Add(ctx, s, supervisor.Identity{ID: "web"}, &plant{id: "web"}, spec, supervisor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.WaitFor(ctx, func(n snapshot) bool { return n.Phase == lifecycle.ServiceRunning || spec.Down && n.Seen.Fresh }); err != nil {
			t.Fatal(err)
		}
		if a := x.Snapshot().Action; !spec.Down {
			if a.Fence <= fence {
				t.Errorf("life %d begins with fence %d after %d", life, a.Fence, fence)
			}
			fence = a.Fence + 1 // that of its stop
		}
		if _, err := s.Remove(ctx, "web"); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-done
		first, last, err := j.Lives(context.Background(), "web")
		if last != life || err != nil || life == 4 && first < 2 {
			t.Errorf("lives %d to %d after %d, %v", first, last, life, err)
		}
		_ = j.Close()
	}
}
