package exchange

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/link"
)

// Limits of the lists of a room.
const (
	minRoom = 32   // for how many items there is room where it is not known how many there will be
	maxRoom = 2000 // of one that is kept
)

// A room keeps lists, without their items, for use again.
type room[T any] struct{ lists sync.Pool }

var (
	stepRoom     room[Step]
	reportRoom   room[Report]
	reportedRoom room[link.Report]
)

// take returns an empty list with room for n items.
func (r *room[T]) take(n int) []T {
	if list, _ := r.lists.Get().(*[]T); list != nil && cap(*list) >= n {
		return *list
	}
	return make([]T, 0, n)
}

// give takes back a list that nobody uses any more.
func (r *room[T]) give(list []T) {
	if n := cap(list); n > 0 && n <= maxRoom {
		clear(list)
		list = list[:0]
		r.lists.Put(&list)
	}
}

// Over gives back the room of the steps of a response that Serve or QuickAnswer has returned. Nobody may
// use them afterwards, but for their texts.
func (a *Answer) Over() {
	stepRoom.give(a.Steps)
	a.Steps = nil
}

// Over gives back the room of the reports of a request that QuickRequest has returned. Nobody may use
// them afterwards.
func (r *Request) Over() {
	reportRoom.give(r.Reports)
	r.Reports = nil
}
