package pawl

import "github.com/pawl-dev/pawl/internal/rowkey"

// Limits of a reservation.
const (
	MaxReserved = 10   // slots
	MaxReserve  = 3600 // seconds until it expires
)

// A Reservation keeps slots of the limit of a depth from jobs, until it is released or
// expires (J4).
type Reservation struct {
	ID        ID
	Workspace string
	Depth     int
	Slots     int
	Pool      rowkey.Pool // of the depth
	ExpiresAt int64
	Actor     string
	Reason    string
}

// A ReservationView is a reservation as JSON shows it.
type ReservationView struct {
	ID        string    `json:"reservation_id"`
	Workspace string    `json:"workspace_id"`
	Depth     int       `json:"depth"`
	Slots     int       `json:"worker_count"`
	ExpiresAt Timestamp `json:"expires_at"`
	Actor     string    `json:"actor"`
	Reason    string    `json:"reason"`
	Replayed  bool      `json:"-"` // the answer was stored before
}

// View returns the reservation as JSON shows it.
func (r *Reservation) View() ReservationView {
	return ReservationView{ID: r.ID.Public(ReservationPrefix), Workspace: r.Workspace, Depth: r.Depth, Slots: r.Slots,
		ExpiresAt: Timestamp(r.ExpiresAt), Actor: r.Actor, Reason: r.Reason}
}
