package explain

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// pauses adds the pauses that last.
func (q *queues) pauses(ctx context.Context) error {
	lasting, err := q.reader.store.Pauses(ctx, store.PauseFilter{Workspace: q.workspace, Lasting: true})
	for _, p := range lasting {
		v, err := q.reader.pause(ctx, p.Key())
		if err != nil {
			return err
		}
		q.at(p.Workspace, p.Queue).Paused = v
	}
	return err
}

// pause returns a pause as its trail begins, or nil if that is gone.
func (r *Reader) pause(ctx context.Context, key rowkey.QueuePause) (*pawl.QueuePauseView, error) {
	page, err := r.store.Trail(ctx, store.PauseEntity(key), 0, 1)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	e := &page[0]
	return &pawl.QueuePauseView{ID: e.Entity, At: pawl.Timestamp(e.At), Actor: e.Actor, Reason: e.Reason}, nil
}

// Queue returns a queue that the list of queues has.
func (r *Reader) Queue(ctx context.Context, n pawl.QueueName) (*pawl.QueueView, error) {
	all, err := r.Queues(ctx, n.Workspace)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == n.Name {
			return &all[i], nil
		}
	}
	return nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("nothing is known of a queue %s", n.Name), Hint: "list the queues with: pawl queue list"}
}

// QueueHistory calls f with the moves of the pauses of a queue that are kept, the newest pause
// first, until f fails.
func (r *Reader) QueueHistory(ctx context.Context, n pawl.QueueName, f func(pawl.Transition) error) error {
	for before := rowkey.QueuePause(0); ; {
		page, err := r.store.Pauses(ctx, store.PauseFilter{Workspace: n.Workspace, Queue: n.Name, Before: before, Limit: store.ListPage})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, p := range page {
			if err := r.moves(ctx, store.PauseEntity(p.Key()), f); err != nil {
				return err
			}
			before = p.Key()
		}
	}
}

// QueueHistoryPage is a page of QueueHistory. It has whole pauses, so that it may have one row
// more than the limit.
func (r *Reader) QueueHistoryPage(ctx context.Context, n pawl.QueueName, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	var before rowkey.QueuePause
	if q.After != "" {
		id, err := pawl.ParseID(pawl.QueuePausePrefix, q.After)
		if err != nil {
			return nil, "", noPlace(q.After)
		}
		before = id.QueuePauseKey()
	}
	page, err := r.store.Pauses(ctx, store.PauseFilter{Workspace: n.Workspace, Queue: n.Name, Before: before, Limit: (limit + 1) / 2})
	for _, p := range page {
		err := r.moves(ctx, store.PauseEntity(p.Key()), func(t pawl.Transition) error {
			rows = append(rows, t)
			return nil
		})
		if err != nil {
			return nil, "", err
		}
		next = p.ID.Public(pawl.QueuePausePrefix)
	}
	if len(page) < (limit+1)/2 {
		next = ""
	}
	return rows, next, err
}

// queuePause returns the reason that the queue of a node is paused, or nil.
func (q *inquiry) queuePause(n int) (*pawl.Reason, error) {
	queue := q.def.Node(n).Queue
	key := q.quotas.Pause(q.job.Workspace, queue)
	if key == 0 || q.job.Private != 0 || q.def.Node(n).Kind.Waits() {
		return nil, nil
	}
	p, err := q.reader.pause(q.ctx, key)
	if err != nil || p == nil {
		return nil, err
	}
	r := q.reason(pawl.ReasonQueuePaused, "queue %s was paused by %s at %s", queue, p.Actor, q.clock(int64(p.At)))
	if p.Reason != "" {
		r.Text += ": " + p.Reason
	}
	r.Names, r.Change = []string{queue}, &pawl.ReasonChange{At: p.At, Actor: p.Actor, Reason: p.Reason}
	r.Hint = "pawl queue resume " + queue + q.workspace()
	return &r, nil
}
