package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var feedTests = []test{
	{name: "Feed/Everything", run: feedEverything},
	{name: "Feed/Pages", run: feedPages},
	{name: "Feed/PagesAreDated", run: feedPagesAreDated},
	{name: "Feed/Joined", run: feedJoined, shared: true},
	{name: "Feed/Gaps", run: feedGaps},
	{name: "Feed/Forgets", run: feedForgets},
	{name: "Feed/Erased", run: feedErased},
	{name: "Feed/NewSchema", run: feedNewSchema, shared: true},
}

// here returns the token of now.
func (e *env) here() store.FeedToken {
	e.Helper()
	b, err := e.st.Since(e.ctx, store.FeedToken{}, 1)
	e.ok(err)
	if len(b.Events) > 0 || !b.All || b.Token.Epoch == 0 {
		e.Fatalf("now is %+v", b)
	}
	return b.Token
}

// since returns everything after a token, and the token behind it, by way of its text.
func (e *env) since(after store.FeedToken, limit int) ([]store.Event, store.FeedToken) {
	e.Helper()
	var all []store.Event
	for {
		b, err := e.st.Since(e.ctx, after, limit)
		e.ok(err)
		all = append(all, b.Events...)
		if after, err = store.ParseFeedToken(b.Token.String()); err != nil {
			e.Fatal(err)
		}
		if b.All {
			return all, after
		}
	}
}

// seen lists events: "ENTITY SEQUENCE EVENT".
func seen(events []store.Event) []string {
	list := []string{}
	for i := range events {
		list = append(list, fmt.Sprint(events[i].Entity, " ", events[i].Sequence, " ", events[i].Event))
	}
	slices.Sort(list)
	return list
}

// kept lists all trails likewise.
func (e *env) kept() []string {
	e.Helper()
	list := []string{}
	e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error {
		for i := range t.Entries {
			list = append(list, fmt.Sprint(t.ID, " ", t.Entries[i].Sequence, " ", t.Entries[i].Event))
		}
		return nil
	}))
	slices.Sort(list)
	return list
}

// feedEverything: each entry of each kind of entity is an event, once, with what it is about.
func feedEverything(e *env) {
	begun := e.here()
	w := e.addWorker()
	s := e.addSchedule("nightly", nil)
	m := e.add(40, claimed(w.Key()))
	p := e.addPause("gpu")
	t := e.addToken("ci", nil)
	h := e.addWebhook("hook", nil)
	events, after := e.since(begun, 100)
	e.diff("events", e.kept(), seen(events))
	for _, ev := range events {
		want := store.Event{Entry: ev.Entry, Commit: ev.Commit, Workspace: "w"}
		switch ev.Kind {
		case lifecycle.Worker.Name:
			want.Name, want.EntityKey = w.Name, store.WorkerEntity(w.Key())
		case lifecycle.Schedule.Name:
			want.Name, want.EntityKey = s.Name, store.ScheduleEntity(s.Key())
		case lifecycle.QueuePause.Name:
			want.Name, want.EntityKey = p.Queue, store.PauseEntity(p.Key())
		case lifecycle.Token.Name:
			want.Name, want.EntityKey, want.Workspace = t.Name, store.TokenEntity(t.Key()), ""
		case lifecycle.Webhook.Name:
			want.Name, want.EntityKey = h.Name, store.WebhookEntity(h.Key())
		default:
			want.Name, want.Job, want.Definition = "flow", m.job.ID, 7
			want.EntityKey = store.StepEntity(pawl.StepKey{Job: m.key(), Ord: ev.Ord})
		}
		e.diff(ev.Entity, want, ev)
		if begun.Sees(ev.Commit) || !after.Sees(ev.Commit) {
			e.Errorf("commit %d is seen by %+v or not by %+v", ev.Commit, begun, after)
		}
	}
	more, same := e.since(after, 100)
	if len(more) > 0 || same.Next != after.Next {
		e.Errorf("%d events again, and %+v after %+v", len(more), same, after)
	}
	e.do(&store.Query{}, func(_ *store.Facts, b *Batch) {}) // writes to no trail
	if more, _ = e.since(after, 100); len(more) > 0 {
		e.Errorf("a commit without entries has events: %v", seen(more))
	}
}

// feedPages: pages have everything once.
func feedPages(e *env) {
	begun := e.here()
	for range 23 {
		e.add(2, nil)
	}
	for _, limit := range []int{1, 4, 22, 23, 24} {
		events, _ := e.since(begun, limit)
		e.diff(fmt.Sprint("pages of ", limit), e.kept(), seen(events))
	}
}

// feedJoined: what a user's transaction writes is seen when it is committed, whatever was read
// meanwhile, and never if it is rolled back. An open one delays no other events.
func feedJoined(e *env) {
	begun := e.here()
	var all []store.Event
	at := begun
	read := func() (events []store.Event) {
		events, at = e.since(at, 3)
		all = append(all, events...)
		return events
	}
	for _, commit := range []bool{true, false} {
		e.outers(func(begin func() Outer) {
			out := begin()
			var first, second made
			e.ok(e.join(out, &store.Query{}, nil, func(f *store.Facts, b *Batch) { first = e.build(f.Now, 1, b, nil) }))
			e.ok(e.join(out, &store.Query{}, nil, func(f *store.Facts, b *Batch) { second = e.build(f.Now, 1, b, nil) }))
			if e.db.CommitWakes { // others can write meanwhile
				for range 5 {
					other := e.add(1, nil)
					if got := read(); len(got) != 3 || got[0].Job != other.job.ID {
						e.Errorf("beside an open transaction: %v, want the events of job %v", seen(got), other.job.ID)
					}
				}
			}
			if got := read(); len(got) > 0 {
				e.Errorf("before the end: %v", seen(got))
			}
			e.ok(out.End(commit))
			want := 0
			if commit {
				want = 6
			}
			if got := read(); len(got) != want {
				e.Errorf("committed %v: %v, want those of jobs %v and %v", commit, seen(got), first.job.ID, second.job.ID)
			}
		})
	}
	e.diff("events", e.kept(), seen(all))
}

// feedGaps: a token of another feed, or from its future, is a gap with a token to go on from.
func feedGaps(e *env) {
	e.add(1, nil)
	here := e.here()
	other, ahead := here, here
	other.Epoch++
	ahead.Next += 1 << 40
	for _, token := range []store.FeedToken{other, ahead} {
		_, err := e.st.Since(e.ctx, token, 10)
		var gap *store.GapError
		if !errors.As(err, &gap) || gap.Reason != store.GapOther || gap.Now.Next != here.Next {
			e.Errorf("after %+v: %v, want a gap that goes on from %+v", token, err, here)
			continue
		}
		m := e.add(1, nil)
		if events, _ := e.since(gap.Now, 10); len(events) != 3 || events[0].Job != m.job.ID {
			e.Errorf("after the gap: %v", seen(events))
		}
		here = e.here()
	}
}

// age makes everything in the feed older.
func (e *env) age(hours int64) {
	e.Helper()
	by := hours * 3600_000_000
	_, _, err := e.db.SQL(e.ctx, fmt.Sprintf("update feed set at = at - %d", by))
	e.ok(err)
	if _, _, err = e.db.SQL(e.ctx, fmt.Sprintf("update feed_horizon set at = at - %d", by)); err != nil && !strings.Contains(err.Error(), "no such table") {
		e.Fatal(err)
	}
}

// feedPagesAreDated: a token behind a page is no younger than what follows, since by its time it
// is judged whether that may be deleted.
func feedPagesAreDated(e *env) {
	place := e.here()
	for range 3 {
		e.add(1, nil)
	}
	for range 2 {
		page, err := e.st.Since(e.ctx, place, 1)
		e.ok(err)
		place = page.Token
		rest, err := e.st.Since(e.ctx, place, 10)
		e.ok(err)
		if page.All || len(rest.Events) == 0 {
			e.Fatalf("a page of one commit is all, or nothing follows: %+v", page)
		}
		for _, ev := range rest.Events {
			if ev.At < place.At {
				e.Errorf("%s %d is of %d, before the token of the page before it, %d", ev.Entity, ev.Sequence, ev.At, place.At)
			}
		}
	}
}

// fedRows counts the rows of the feed.
func (e *env) fedRows() string {
	e.Helper()
	_, rows, err := e.db.SQL(e.ctx, "select count(*) from feed")
	e.ok(err)
	return rows[0][0]
}

// feedForgets: what no token of the last hour needs is deleted by Maintain, in the end. A token
// older than that is a gap.
func feedForgets(e *env) {
	e.add(1, nil)
	old := e.here()
	for range 5 {
		e.add(1, nil)
	}
	e.ok(e.st.Maintain(e.ctx))
	if n := e.fedRows(); n != "6" {
		e.Fatalf("%s rows are left of those of now, want 6", n)
	}
	for e.fedRows() > "1" && e.ctx.Err() == nil { // transactions of other tests may be older than these
		e.age(2)
		e.ok(e.st.Maintain(e.ctx))
	}
	old.At -= 4 * 3600_000_000
	var gap *store.GapError
	if _, err := e.st.Since(e.ctx, old, 10); !errors.As(err, &gap) || gap.Reason != store.GapOld {
		e.Errorf("after a token of 4 hours ago: %v, want a gap", err)
	}
	here := e.here()
	m := e.add(1, nil)
	if events, _ := e.since(here, 10); len(events) != 3 || events[0].Job != m.job.ID {
		e.Errorf("afterwards the feed has %v", seen(events))
	}
	e.ok(e.st.Maintain(e.ctx))
	if events, _ := e.since(here, 10); len(events) != 3 {
		e.Errorf("the new row was forgotten, too: %v", seen(events))
	}
}

// feedErased: an event whose trail is gone is left out, and those beside it are not.
func feedErased(e *env) {
	begun := e.here()
	gone := e.add(1, nil)
	left := e.add(1, nil)
	for _, table := range []string{"audit where job", "step where job", "job where id"} {
		_, _, err := e.db.SQL(e.ctx, fmt.Sprintf("delete from %s = %d", table, gone.key()))
		e.ok(err)
	}
	events, _ := e.since(begun, 10)
	for _, ev := range events {
		if ev.Job != left.job.ID {
			e.Errorf("job %v is gone, and has the event %s", gone.job.ID, ev.Event)
		}
	}
	if len(events) != 3 {
		e.Errorf("events %v, want the 3 of job %v", seen(events), left.job.ID)
	}
}

// beforeFeed is the last version of the schema without a feed.
const beforeFeed = 8

// feedNewSchema: a feed that was dropped and made again is another one.
func feedNewSchema(e *env) {
	e.add(1, nil)
	here := e.here()
	_, newest := e.version()
	e.ok(e.st.Migrate(e.ctx, beforeFeed))
	e.ok(e.st.Migrate(e.ctx, newest))
	e.st = e.open()
	e.add(1, nil)
	var gap *store.GapError
	if _, err := e.st.Since(e.ctx, here, 10); !errors.As(err, &gap) || gap.Reason != store.GapOther {
		e.Errorf("after a token of the feed before: %v, want a gap", err)
	}
}
