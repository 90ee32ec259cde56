package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a job (J2).
const (
	JobSubmitted machine.State = "SUBMITTED"
	JobPending   machine.State = "PENDING"
	JobRunning   machine.State = "RUNNING"
	JobCompleted machine.State = "COMPLETED"
	JobFailed    machine.State = "FAILED"
	JobCanceled  machine.State = "CANCELED"
)

// The events of a job. JobHalt begins the end of a running job: its unfinished
// steps are being cancelled, and cancel or error follows when they are. JobHooks
// follows when all steps have ended, and begins its hooks. JobSignal records an
// event, and JobMove a change to another version of its workflow. JobRedact withholds payload of a
// job that has ended.
const (
	JobSubmit            machine.Event = "submit"
	JobValidate          machine.Event = "validate"
	JobReject            machine.Event = "reject"
	JobAllocateResources machine.Event = "allocate_resources"
	JobSuccess           machine.Event = "success"
	JobError             machine.Event = "error"
	JobCancel            machine.Event = "cancel"
	JobPause             machine.Event = "pause"
	JobResume            machine.Event = "resume"
	JobHalt              machine.Event = "halt"
	JobHooks             machine.Event = "hooks"
	JobSignal            machine.Event = "signal"
	JobMove              machine.Event = "move"
	JobRedact            machine.Event = "redact"
)

// Job is one run of a workflow.
var Job = &machine.Machine{
	Name:    "job",
	Doc:     "one run of a workflow, submitted by a user",
	Create:  JobSubmit,
	Initial: JobSubmitted,
	States:  []machine.State{JobSubmitted, JobPending, JobRunning, JobCompleted, JobFailed, JobCanceled},
	Ends:    []machine.State{JobCompleted, JobFailed, JobCanceled},
	Table: machine.Table{
		JobSubmitted: {
			JobValidate: JobPending,
			JobReject:   JobFailed,
			JobCancel:   JobCanceled,
		},
		JobPending: {
			JobAllocateResources: JobRunning,
			JobCancel:            JobCanceled,
			JobPause:             JobPending,
			JobResume:            JobPending,
			JobSignal:            JobPending,
			JobMove:              JobPending,
		},
		JobRunning: {
			JobSuccess: JobCompleted,
			JobError:   JobFailed,
			JobCancel:  JobCanceled,
			JobHalt:    JobRunning,
			JobPause:   JobRunning,
			JobResume:  JobRunning,
			JobHooks:   JobRunning,
			JobSignal:  JobRunning,
			JobMove:    JobRunning,
		},
		JobCompleted: {JobRedact: JobCompleted},
		JobFailed:    {JobRedact: JobFailed},
		JobCanceled:  {JobRedact: JobCanceled},
	},
}
