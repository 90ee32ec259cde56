package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a schedule.
const (
	ScheduleActive  machine.State = "active"
	SchedulePaused  machine.State = "paused"
	ScheduleRemoved machine.State = "removed"
)

// The events of a schedule. ScheduleFire makes a job. ScheduleSkip lets a time pass
// without one: it was missed, or the job of the time before still runs. ScheduleUpdate
// changes what it runs, and when.
const (
	ScheduleCreate machine.Event = "create"
	ScheduleFire   machine.Event = "fire"
	ScheduleSkip   machine.Event = "skip"
	ScheduleQueue  machine.Event = "queue"
	ScheduleUpdate machine.Event = "update"
	SchedulePause  machine.Event = "pause"
	ScheduleResume machine.Event = "resume"
	ScheduleRemove machine.Event = "remove"
)

// Schedule is a timetable: it makes jobs at the times of a cron expression.
var Schedule = &machine.Machine{
	Name:    "schedule",
	Doc:     "a timetable that makes jobs of a workflow",
	Create:  ScheduleCreate,
	Initial: ScheduleActive,
	States:  []machine.State{ScheduleActive, SchedulePaused, ScheduleRemoved},
	Ends:    []machine.State{ScheduleRemoved},
	Table: machine.Table{
		ScheduleActive: {
			ScheduleFire:   ScheduleActive,
			ScheduleSkip:   ScheduleActive,
			ScheduleQueue:  ScheduleActive,
			ScheduleUpdate: ScheduleActive,
			SchedulePause:  SchedulePaused,
			ScheduleRemove: ScheduleRemoved,
		},
		SchedulePaused: {
			ScheduleUpdate: SchedulePaused,
			ScheduleResume: ScheduleActive,
			ScheduleRemove: ScheduleRemoved,
		},
	},
}
