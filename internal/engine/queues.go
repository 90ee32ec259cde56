package engine

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// PauseQueue keeps the steps of a queue from being claimed until it is resumed; those that run
// go on. The receipt is of the pause. Of a paused queue it is refused.
func (e *Engine) PauseQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error) {
	return e.operateQueue(ctx, n, c, lifecycle.QueuePauseEvent)
}

// ResumeQueue ends the pause of a queue. The error is of kind Conflict if it is not paused.
func (e *Engine) ResumeQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error) {
	return e.operateQueue(ctx, n, c, lifecycle.QueueResumeEvent)
}

func (e *Engine) operateQueue(ctx context.Context, n pawl.QueueName, c pawl.Change, event machine.Event) (pawl.Receipt, error) {
	if n.Workspace == "" {
		n.Workspace = pawl.DefaultWorkspace
	}
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	if !workflow.IsID(n.Name) {
		return pawl.Receipt{}, pawl.Errorf(pawl.Invalid, "queue %q: want an id: a-z first, then a-z, 0-9 and _", n.Name)
	}
	r, err := e.newRequest(c, n.Workspace, "POST /api/queues/{name}/"+string(event), n)
	if err != nil {
		return pawl.Receipt{}, err
	}
	cmd := &operateQueue{e: e, queue: n, event: event, version: c.Version, note: noteOf(c)}
	cmd.renew()
	return e.act(ctx, r, cmd, c)
}

type operateQueue struct {
	e       *Engine
	id      pawl.ID           // of a new pause
	key     rowkey.QueuePause // of the one that was made or ended
	queue   pawl.QueueName
	event   machine.Event
	version int64
	note    decide.Note
}

func (o *operateQueue) subject() store.EntityKey { return store.PauseEntity(o.key) }

func (o *operateQueue) renew() { o.id = o.e.NewID() }

func (o *operateQueue) query(q *store.Query) { q.Paused = append(q.Paused, o.queue) }

func (o *operateQueue) decide(t *tx) error {
	p := t.pauseOf(o.queue)
	if err := checkVersion(o.version, p, "queue "+o.queue.Name); err != nil {
		return err
	}
	switch {
	case p != nil:
		o.key = p.Key()
		return t.movePause(p, o.event, o.note)
	case o.event == lifecycle.QueueResumeEvent:
		return pawl.Errorf(pawl.Conflict, "queue %s of workspace %s is not paused", o.queue.Name, o.queue.Workspace)
	}
	p = &pawl.QueuePause{ID: o.id, Workspace: o.queue.Workspace, Queue: o.queue.Name}
	o.key = p.Key()
	note := o.note
	note.Metadata, _ = json.Marshal(map[string]string{"workspace_id": p.Workspace, "queue": p.Queue}) // text
	t.makePause(p, note)
	return nil
}

// pauseOf returns the pause of a queue that lasts, or nil.
func (t *tx) pauseOf(n pawl.QueueName) *pawl.QueuePause {
	for _, h := range t.pauses {
		if p := h.record; p.State == lifecycle.QueuePaused && p.Workspace == n.Workspace && p.Queue == n.Name {
			return touch(t, h, &t.journal.pauses)
		}
	}
	return nil
}

func (t *tx) makePause(p *pawl.QueuePause, note decide.Note) {
	k := p.Key()
	if t.pauses == nil {
		t.pauses = make(map[rowkey.QueuePause]*held[pawl.QueuePause])
	}
	h := &held[pawl.QueuePause]{record: p, made: true, dirty: true, command: t.command}
	t.pauses[k] = h
	t.journal.madePauses = append(t.journal.madePauses, k)
	t.create(store.PauseEntity(k), h.public(p.ID, pawl.QueuePausePrefix), lifecycle.QueuePause, draft{record: &p.Record, span: &h.span}, note)
}

func (t *tx) movePause(p *pawl.QueuePause, event machine.Event, note decide.Note) error {
	k := p.Key()
	h := t.pauses[k]
	if err := t.move(store.PauseEntity(k), h.public(p.ID, pawl.QueuePausePrefix), lifecycle.QueuePause, draft{record: &p.Record, span: &h.span}, event, note); err != nil {
		return err
	}
	h.dirty = true
	return nil
}
