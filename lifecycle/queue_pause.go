package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a pause of a queue.
const (
	QueuePaused  machine.State = "paused"
	QueueResumed machine.State = "resumed"
)

// The events of a pause of a queue.
const (
	QueuePauseEvent  machine.Event = "pause"
	QueueResumeEvent machine.Event = "resume"
)

// QueuePause is a pause of a queue: while it lasts, no step of the queue is claimed.
var QueuePause = &machine.Machine{
	Name:    "queue_pause",
	Doc:     "a pause of a queue, during which no step of it is claimed",
	Create:  QueuePauseEvent,
	Initial: QueuePaused,
	States:  []machine.State{QueuePaused, QueueResumed},
	Ends:    []machine.State{QueueResumed},
	Table: machine.Table{
		QueuePaused: {
			QueueResumeEvent: QueueResumed,
		},
	},
}
