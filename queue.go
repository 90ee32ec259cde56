package pawl

import "github.com/pawl-dev/pawl/internal/rowkey"

// A QueueName is the name of a queue.
type QueueName struct{ Workspace, Name string }

// A QueuePause is a pause of a queue. While it lasts, no step of the queue is claimed.
type QueuePause struct {
	Record
	ID        ID
	Workspace string
	Queue     string // a queue has one pause that lasts
}

// Key returns the key of the pause.
func (p *QueuePause) Key() rowkey.QueuePause { return p.ID.QueuePauseKey() }

// Version returns the number of this pause: a later one of the queue has a higher one.
func (p *QueuePause) Version() int64 { return int64(p.Key()) }

// QueuePausePrefix is the prefix of the public ids of pauses of queues.
const QueuePausePrefix = "qp_"

// A QueuePauseView is a pause of a queue as JSON shows it.
type QueuePauseView struct {
	ID     string    `json:"id"`
	At     Timestamp `json:"at"` // since when
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
}
