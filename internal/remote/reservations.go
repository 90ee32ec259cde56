package remote

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

// Reserve keeps slots of the limit of a depth from jobs.
func (e *Engine) Reserve(ctx context.Context, workspace string, depth, slots int, ttl time.Duration, c pawl.Change) (pawl.ReservationView, error) {
	return e.reservation(ctx, command("allocate-resources", "/api/resources/allocate", c, struct {
		note
		Workspace string `json:"workspace_id,omitempty"`
		Depth     int    `json:"depth"`
		Slots     int    `json:"worker_count"`
		TTL       int64  `json:"ttl_s"`
	}{note{c.Reason}, workspace, depth, slots, int64(ttl / time.Second)}))
}

// Release ends a reservation.
func (e *Engine) Release(ctx context.Context, workspace string, id pawl.ID, c pawl.Change) (pawl.ReservationView, error) {
	return e.reservation(ctx, command("release-resources", "/api/resources/release", c, struct {
		note
		Workspace string `json:"workspace_id,omitempty"`
		ID        string `json:"reservation_id"`
	}{note{c.Reason}, workspace, id.Public(pawl.ReservationPrefix)}))
}

func (e *Engine) reservation(ctx context.Context, c *call) (v pawl.ReservationView, err error) {
	a, err := e.do(ctx, c, &v)
	if err != nil {
		return pawl.ReservationView{}, err
	}
	v.Replayed = a.replayed
	return v, nil
}
