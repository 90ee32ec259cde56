package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// MovePage lists moves: those of one entity, oldest first, or of all, newest first. It looks at
// pageLook rows at most, so that a page may be short though there is a next. Where that many rows
// are written within half a minute, the order of pages is exact only to leastSpan.
func (r *Reader) MovePage(ctx context.Context, q pawl.AuditQuery) (moves []pawl.Move, next string, err error) {
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	if q.Limit, err = pageLimit(q.Limit); err != nil {
		return nil, "", err
	}
	if len(q.Machines) == 0 {
		q.Machines = pawl.AuditMachines
	}
	if q.Entity != "" {
		return r.movesOf(ctx, &q)
	}
	return r.movesByTime(ctx, &q)
}

// movesOf lists moves of one entity. What the query excludes by its machine or workspace does
// not exist.
func (r *Reader) movesOf(ctx context.Context, q *pawl.AuditQuery) (moves []pawl.Move, next string, err error) {
	of, err := r.entityOf(ctx, q.Entity)
	if err == nil && (!slices.Contains(q.Machines, of.Kind) || len(q.Workspaces) > 0 && !slices.Contains(q.Workspaces, of.Workspace)) {
		err = noEntity(q.Entity)
	}
	if err != nil {
		return nil, "", err
	}
	h := pawl.HistoryQuery{After: q.After, Limit: maxPage}
	for looked := 0; looked < pageLook; looked += maxPage {
		page, behind, err := r.movesPage(ctx, of.EntityKey, h)
		if err != nil {
			return nil, "", err
		}
		for i := range page {
			if len(moves) == q.Limit {
				return moves, h.After, nil
			}
			if q.Admits(&page[i]) {
				moves = append(moves, r.moveOf(ctx, &of, page[i]))
			}
			h.After = strconv.FormatInt(page[i].Sequence, 10)
		}
		if next = behind; next == "" {
			break
		}
	}
	return moves, next, nil
}

// moveOf returns a move of what an event is about. The key of a step is left out if its
// definition is gone.
func (r *Reader) moveOf(ctx context.Context, of *store.Event, t pawl.Transition) pawl.Move {
	m := pawl.Move{Transition: t, Machine: of.Kind, Name: of.Name, Workspace: of.Workspace}
	if of.Job != (pawl.ID{}) {
		m.JobID = of.Job.Public(pawl.JobPrefix)
	}
	if of.Ord != 0 {
		if def, err := r.defs.Get(ctx, of.Definition); err == nil {
			m.Step = def.Key(of.Ord)
		}
	}
	return m
}

const (
	spanRows  = 5000             // that a span of time may have at most
	firstSpan = time.Minute      // that is read
	leastSpan = 10 * time.Second // a shorter span saves nothing: its range of keys has the jobs made 10 s before and after all the same
	spanCost  = 100              // what reading a span costs, in rows
)

// movesByTime lists moves of all entities. It reads spans of time, from the end of the query
// backwards, each as long as the density of the one behind it suggests: first one with as many
// rows as the page, then, if few of them are selected, longer ones. It looks at r.look rows at most. A
// span that has more, though it is the shortest, is a slice, whose moves come over several pages in
// the order of their rows: the first pages may lack moves that are newer than theirs, by up to the
// length of the slice.
func (r *Reader) movesByTime(ctx context.Context, q *pawl.AuditQuery) (moves []pawl.Move, next string, err error) {
	at, err := parseMovePlace(q.After)
	if err != nil {
		return nil, "", err
	}
	p := movePage{q: q, moveCursor: at}
	f := store.MoveFilter{Machines: q.Machines, Actor: q.Actor, Event: q.Event, State: q.State, Workspaces: q.Workspaces, To: cmp.Or(int64(q.To), 1<<62)}
	if at.behind != (store.MovePlace{}) {
		f.To = min(f.To, at.behind.At+1)
	}
	span, most, looked, moved := firstSpan.Microseconds(), max(q.Limit, spanCost), 0, false
	for full := false; !full; {
		f.From, f.Most = max(int64(q.From), min(f.To, pawl.Micros(r.cfg.Clock()))-span), min(most, (r.look-looked)/4) // a shorter one may follow
		shortest := span <= leastSpan.Microseconds()
		if shortest {
			f.Most = r.look - looked
		}
		if p.slice {
			f.From, f.Start, shortest, f.Most = max(int64(q.From), p.from), p.start, true, min(most, r.look-looked)
		}
		page, err := r.store.Moves(ctx, f)
		if err != nil {
			return nil, "", err
		}
		looked += page.Rows
		over := page.Last != (store.MoveRow{})
		switch {
		case over && !shortest:
			span = max(span/4, leastSpan.Microseconds())
		case over && moved && f.Most < r.look/2: // the next page may look at more
			full = true
		case over || p.slice:
			p.addSlice(f.From, page)
			full, most = len(p.found) == q.Limit || !p.slice, min(4*most, spanRows)
		default:
			full, moved, looked = p.add(f.From, page), true, looked+spanCost
			f.To, most = f.From, min(4*most, spanRows)
			if page.Rows < most/4 {
				span *= 4
			}
		}
		full = full || looked >= r.look-spanCost || p.end
	}
	if !p.end {
		next = p.String()
	}
	slices.SortFunc(p.found, func(a, b store.Moved) int { return b.Place().Compare(a.Place()) })
	moves, err = r.movesFound(ctx, p.found)
	return moves, next, err
}

// A moveCursor is the place at which a page of moves has ended.
type moveCursor struct {
	behind store.MovePlace // moves from this place on were returned; zero: none were

	slice bool            // a slice was begun
	from  int64           // where it begins; it ends at behind
	start store.MoveRow   // at which it is continued
	seen  store.MovePlace // of that row, the move that was returned last; zero: none was
}

// A movePage is a page of moves by time while it is put together. Its cursor is the place of the next one.
type movePage struct {
	moveCursor
	q     *pawl.AuditQuery
	found []store.Moved
	end   bool // there is no next page
}

// add adds the moves of a span, and reports whether the page is full.
func (p *movePage) add(from int64, page *store.Moves) (full bool) {
	slices.SortFunc(page.List, func(a, b store.Moved) int { return b.Place().Compare(a.Place()) })
	for i := range page.List {
		m := &page.List[i]
		if p.returned(m) {
			continue
		}
		if len(p.found) == p.q.Limit {
			p.moveCursor = moveCursor{behind: p.found[len(p.found)-1].Place()}
			return true
		}
		p.found = append(p.found, *m)
	}
	p.passed(from)
	return false
}

// addSlice adds moves of a slice, as many as the page has room for.
func (p *movePage) addSlice(from int64, page *store.Moves) {
	before := p.moveCursor
	p.slice, p.from = true, from
	for i := range page.List {
		m := &page.List[i]
		if p.returned(m) || m.Row == before.start && before.seen != (store.MovePlace{}) && m.Place().Compare(before.seen) >= 0 {
			continue
		}
		if len(p.found) == p.q.Limit {
			return
		}
		p.found = append(p.found, *m)
		p.start, p.seen = m.Row, m.Place()
	}
	if page.Last == (store.MoveRow{}) {
		p.passed(from)
		return
	}
	if p.start != page.Last {
		p.start, p.seen = page.Last, store.MovePlace{}
	}
}

// returned reports whether a move was returned, in the order of time, before the spans of the page.
func (p *movePage) returned(m *store.Moved) bool {
	return p.behind != (store.MovePlace{}) && m.Place().Compare(p.behind) >= 0
}

// passed notes that all moves from a time on are returned.
func (p *movePage) passed(from int64) {
	p.moveCursor = moveCursor{behind: store.MovePlace{At: from}}
	p.end = from <= int64(p.q.From)
}

// movesFound returns entries as moves.
func (r *Reader) movesFound(ctx context.Context, found []store.Moved) ([]pawl.Move, error) {
	if err := store.Precede(ctx, r.store, found); err != nil {
		return nil, err
	}
	moves := make([]pawl.Move, len(found))
	for i := range found {
		moves[i] = r.moveOf(ctx, &found[i].Event, pawl.TransitionOf(&found[i].Entry.Entry))
	}
	return moves, nil
}

// String returns the cursor as text.
func (c moveCursor) String() string {
	text := movePlaceText(c.behind)
	if c.slice {
		r := c.start
		text += fmt.Sprintf(".%d.%d.%d.%d.%d.%d.%s", c.from, r.Part, r.At, r.Job, r.Ord, r.Seq, movePlaceText(c.seen))
	}
	return text
}

func movePlaceText(p store.MovePlace) string {
	return fmt.Sprintf("%d.%s.%d.%d.%d", p.At, p.Kind, p.Job, p.Ord, p.Seq)
}

func parseMovePlace(text string) (c moveCursor, err error) {
	if text == "" {
		return c, nil
	}
	parts := strings.Split(text, ".")
	if c.slice = len(parts) == 16; len(parts) != 5 && !c.slice {
		return c, noPlace(text)
	}
	n := make([]int64, len(parts))
	for i := range parts {
		if i == 1 || i == 12 { // kinds
			continue
		}
		if n[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return c, noPlace(text)
		}
	}
	place := func(i int) store.MovePlace {
		return store.MovePlace{At: n[i], EntityKey: store.EntityKey{Kind: parts[i+1], StepKey: stepKey(n[i+2:])}, Seq: n[i+4]}
	}
	c.behind = place(0)
	if c.slice {
		c.from, c.start, c.seen = n[5], store.MoveRow{Part: int(n[6]), At: n[7], StepKey: stepKey(n[8:]), Seq: n[10]}, place(11)
	}
	if c.String() != text || c.start.Part < 0 {
		return c, noPlace(text)
	}
	return c, nil
}

func stepKey(n []int64) pawl.StepKey {
	return pawl.StepKey{Job: rowkey.Job(n[0]), Ord: pawl.Ord(n[1])}
}

func noEntity(entity string) error {
	return pawl.Errorf(pawl.NotFound, "there is no %.100q", entity)
}

// entityOf returns what an entity is, by its public id.
func (r *Reader) entityOf(ctx context.Context, entity string) (of store.Event, err error) {
	prefix := entity[:strings.Index(entity, "_")+1]
	id, err := pawl.ParseID(prefix, entity)
	if err != nil {
		return of, err
	}
	switch prefix {
	case pawl.JobPrefix:
		var j *pawl.Job
		if j, err = store.FindJob(ctx, r.store, id); err == nil {
			of = ofJob(j, 0)
		}
	case pawl.StepPrefix:
		var j *pawl.Job
		if j, err = r.jobOf(ctx, id); err == nil {
			of = ofJob(j, id.StepKey().Ord)
		}
	case pawl.WorkerPrefix:
		var w *pawl.Worker
		if w, err = store.FindWorker(ctx, r.store, id); err == nil {
			of.EntityKey, of.Workspace, of.Name = store.WorkerEntity(w.Key()), w.Workspace, w.Name
		}
	case pawl.SchedulePrefix:
		var s *pawl.Schedule
		if s, err = r.store.Schedule(ctx, id.ScheduleKey()); err == nil && s.ID == id {
			of.EntityKey, of.Workspace, of.Name = store.ScheduleEntity(s.Key()), s.Workspace, s.Name
		}
	case pawl.TokenPrefix:
		var t *pawl.Token
		if t, err = store.FindToken(ctx, r.store, id); err == nil {
			of.EntityKey, of.Name = store.TokenEntity(t.Key()), t.Name
		}
	case pawl.QueuePausePrefix:
		var found []*pawl.QueuePause
		if found, err = r.store.Pauses(ctx, store.PauseFilter{Before: id.QueuePauseKey() + 1, Limit: 1}); err == nil && len(found) > 0 && found[0].ID == id {
			of.EntityKey, of.Workspace, of.Name = store.PauseEntity(found[0].Key()), found[0].Workspace, found[0].Queue
		}
	case pawl.WebhookPrefix:
		var w *pawl.Webhook
		if w, err = r.store.Webhook(ctx, id.WebhookKey()); err == nil && w.ID == id {
			of.EntityKey, of.Workspace, of.Name = store.WebhookEntity(w.Key()), w.Workspace, w.Name
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound), err != nil && pawl.KindOf(err) == pawl.NotFound, err == nil && of.Kind == "":
		err = noEntity(entity)
	}
	return of, err
}

func ofJob(j *pawl.Job, ord pawl.Ord) (of store.Event) {
	of.EntityKey, of.Workspace, of.Name = store.StepEntity(pawl.StepKey{Job: j.Key(), Ord: ord}), j.Workspace, j.Workflow
	of.Job, of.Definition = j.ID, j.Definition
	return of
}
