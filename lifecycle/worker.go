package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a worker (J1).
const (
	WorkerIdle       machine.State = "IDLE"
	WorkerRunning    machine.State = "RUNNING"
	WorkerPaused     machine.State = "PAUSED"
	WorkerCompleted  machine.State = "COMPLETED"
	WorkerFailed     machine.State = "FAILED"
	WorkerTerminated machine.State = "TERMINATED"
)

// The events of a worker.
const (
	WorkerRegister           machine.Event = "register"
	WorkerStartTask          machine.Event = "start_task"
	WorkerPause              machine.Event = "pause"
	WorkerResume             machine.Event = "resume"
	WorkerCompleteTasks      machine.Event = "complete_tasks"
	WorkerErrorUnrecoverable machine.Event = "error_unrecoverable"
	WorkerTerminate          machine.Event = "terminate"
)

// Worker is a process that claims steps.
var Worker = &machine.Machine{
	Name:    "worker",
	Doc:     "a process that claims steps, several at once",
	Create:  WorkerRegister,
	Initial: WorkerIdle,
	States:  []machine.State{WorkerIdle, WorkerRunning, WorkerPaused, WorkerCompleted, WorkerFailed, WorkerTerminated},
	// terminate is legal from every state but TERMINATED, so COMPLETED and FAILED have
	// that one exit; they are still ends.
	Ends: []machine.State{WorkerCompleted, WorkerFailed, WorkerTerminated},
	Table: machine.Table{
		WorkerIdle: {
			WorkerStartTask: WorkerRunning,
			WorkerTerminate: WorkerTerminated,
		},
		WorkerRunning: {
			WorkerPause:              WorkerPaused,
			WorkerCompleteTasks:      WorkerCompleted,
			WorkerErrorUnrecoverable: WorkerFailed,
			WorkerTerminate:          WorkerTerminated,
		},
		WorkerPaused: {
			WorkerResume:    WorkerRunning,
			WorkerTerminate: WorkerTerminated,
		},
		WorkerCompleted: {
			WorkerTerminate: WorkerTerminated,
		},
		WorkerFailed: {
			WorkerTerminate: WorkerTerminated,
		},
	},
}
