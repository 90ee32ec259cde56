package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/store"
)

// Reserve keeps slots of the limit of a depth from jobs, until they are released or ttl has
// passed, a whole number of seconds. Too few free slots are an error of kind Conflict. A depth
// without a limit has slots without end.
func (e *Engine) Reserve(ctx context.Context, workspace string, depth, slots int, ttl time.Duration, c pawl.Change) (pawl.ReservationView, error) {
	none := pawl.ReservationView{}
	if err := checkChange(c); err != nil {
		return none, err
	}
	switch seconds := int64(ttl / time.Second); {
	case depth < 0 || depth > MaxDepth:
		return none, pawl.Errorf(pawl.Invalid, "depth: %d: want 0 to %d", depth, MaxDepth)
	case slots < 1 || slots > pawl.MaxReserved:
		return none, pawl.Errorf(pawl.Invalid, "worker_count: %d: want 1 to %d", slots, pawl.MaxReserved)
	case seconds < 1 || seconds > pawl.MaxReserve || ttl%time.Second != 0:
		return none, pawl.Errorf(pawl.Invalid, "ttl_s: %s: want 1 to %d seconds", ttl, pawl.MaxReserve)
	}
	if workspace == "" {
		workspace = pawl.DefaultWorkspace
	}
	r, err := e.newRequest(c, workspace, "POST /api/resources/allocate", depth, slots, ttl)
	if err != nil {
		return none, err
	}
	limits, err := e.limits.Get(ctx)
	if err != nil {
		return none, err
	}
	cmd := &reserve{limits: limits, ttl: ttl,
		asked: pawl.Reservation{ID: e.NewID(), Workspace: workspace, Depth: depth, Slots: slots, Pool: quota.DepthPool(workspace, depth).Key, Actor: c.Actor, Reason: c.Reason}}
	err = e.execute(ctx, r, cmd, reservation{&cmd.made})
	return cmd.made, err
}

// A reservation is the stored answer to Reserve and Release.
type reservation struct{ *pawl.ReservationView }

func (r reservation) answer() (status int, body []byte) { return document{r.ReservationView}.answer() }

func (r reservation) replay(body []byte) error {
	err := document{r.ReservationView}.replay(body)
	r.Replayed = true
	return err
}

// A reserve is the command of Reserve.
type reserve struct {
	limits *quota.Limits
	ttl    time.Duration
	asked  pawl.Reservation
	made   pawl.ReservationView
}

func (r *reserve) pool() store.Pool { return store.Pool{Kind: store.PoolQuota, Key: r.asked.Pool} }

func (r *reserve) query(q *store.Query) { q.Pools = append(q.Pools, r.pool()) }

func (r *reserve) decide(t *tx) error {
	if slots, limited := r.limits.Depth(r.asked.Workspace, r.asked.Depth); limited {
		if used := t.used(r.pool()); used+r.asked.Slots > slots {
			return &pawl.Error{Kind: pawl.Conflict, Hint: "see what is taken with: pawl quota list",
				Message: fmt.Sprintf("depth/%d has %d free slots of %d: %d were asked for", r.asked.Depth, max(slots-used, 0), slots, r.asked.Slots)}
		}
		t.takeSlots(r.pool(), r.asked.Slots)
	}
	made := r.asked
	made.ExpiresAt = t.now + r.ttl.Microseconds()
	t.reserved = append(t.reserved, &made)
	r.made = made.View()
	return nil
}

// Release ends a reservation. One that does not exist, was released or has expired is an
// error of kind NotFound.
func (e *Engine) Release(ctx context.Context, workspace string, id pawl.ID, c pawl.Change) (pawl.ReservationView, error) {
	none := pawl.ReservationView{}
	if err := checkChange(c); err != nil {
		return none, err
	}
	if workspace == "" {
		workspace = pawl.DefaultWorkspace
	}
	r, err := e.newRequest(c, workspace, "POST /api/resources/release", id)
	if err != nil {
		return none, err
	}
	cmd := &unreserve{id: id, workspace: workspace}
	if err := e.execute(ctx, r, cmd, reservation{&cmd.ended}); err != nil {
		return none, err
	}
	e.evaluator.look()
	e.wake(manySteps, true, false)
	return cmd.ended, nil
}

// An unreserve is the command of Release.
type unreserve struct {
	id        pawl.ID
	workspace string
	ended     pawl.ReservationView
}

func (r *unreserve) query(q *store.Query) { q.Reservations = append(q.Reservations, r.id) }

func (r *unreserve) decide(t *tx) error {
	if !slices.Contains(t.asked.q.Reservations, r.id) {
		t.missed("Reservations", "reservation %s", r.id.Public(pawl.ReservationPrefix))
	}
	v := t.facts.Reservations[r.id]
	if v == nil || v.Workspace != r.workspace || slices.Contains(t.released, v) {
		id := r.id.Public(pawl.ReservationPrefix)
		return &pawl.Error{Kind: pawl.NotFound, Entity: id, Message: "there is no reservation " + id + " any more"}
	}
	t.released = append(t.released, v)
	r.ended = v.View()
	return nil
}
