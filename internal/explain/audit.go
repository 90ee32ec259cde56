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
// some pageLook rows, so that a page may be short though there is a next.
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
	leastSpan = time.Millisecond // it is read whatever it has
	spanCost  = 100              // what reading a span costs, in rows
)

// movesByTime lists moves of all entities. It reads spans of time, from the end of the query
// backwards, each as long as the density of the one behind it suggests: first one with as many
// rows as the page, then, if few of them are selected, longer ones.
func (r *Reader) movesByTime(ctx context.Context, q *pawl.AuditQuery) (moves []pawl.Move, next string, err error) {
	place, err := parseMovePlace(q.After)
	if err != nil {
		return nil, "", err
	}
	end := cmp.Or(int64(q.To), 1<<62)
	if q.After != "" {
		end = min(end, place.At+1)
	}
	var found []store.Moved
	span, most := firstSpan.Microseconds(), max(q.Limit, spanCost)
	for looked := 0; looked < pageLook; looked += spanCost {
		f := store.MoveFilter{Machines: q.Machines, Actor: q.Actor, Workspaces: q.Workspaces, To: end, Most: most}
		f.From = max(int64(q.From), min(end, pawl.Micros(r.cfg.Clock()))-span)
		if span <= leastSpan.Microseconds() {
			f.Most = 0
		}
		page, err := r.store.Moves(ctx, f)
		if err != nil {
			return nil, "", err
		}
		if page.Over {
			span /= 4
			continue
		}
		for i := range page.List {
			m := &page.List[i]
			if q.After != "" && m.Place().Compare(place) >= 0 {
				continue
			}
			if len(found) == q.Limit {
				moves, err = r.movesFound(ctx, found)
				return moves, movePlaceText(found[len(found)-1].Place()), err
			}
			found = append(found, *m)
		}
		if next = ""; f.From <= int64(q.From) {
			break
		}
		next, end = movePlaceText(store.MovePlace{At: f.From}), f.From
		most = min(4*most, spanRows)
		if looked += page.Rows; page.Rows < most/4 {
			span *= 4
		}
	}
	moves, err = r.movesFound(ctx, found)
	return moves, next, err
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

func movePlaceText(p store.MovePlace) string {
	return fmt.Sprintf("%d.%s.%d.%d.%d", p.At, p.Kind, p.Job, p.Ord, p.Seq)
}

func parseMovePlace(text string) (p store.MovePlace, err error) {
	if text == "" {
		return p, nil
	}
	parts := strings.Split(text, ".")
	if len(parts) != 5 {
		return p, noPlace(text)
	}
	var n [5]int64
	for i := range parts {
		if i == 1 {
			continue
		}
		if n[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return p, noPlace(text)
		}
	}
	p = store.MovePlace{At: n[0], EntityKey: store.EntityKey{Kind: parts[1], StepKey: pawl.StepKey{Job: rowkey.Job(n[2]), Ord: pawl.Ord(n[3])}}, Seq: n[4]}
	if movePlaceText(p) != text {
		return p, noPlace(text)
	}
	return p, nil
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
