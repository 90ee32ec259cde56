package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a crew member (C1).
const (
	MemberIdle      machine.State = "IDLE"
	MemberAssigned  machine.State = "ASSIGNED"
	MemberWorking   machine.State = "WORKING"
	MemberInReview  machine.State = "IN_REVIEW"
	MemberApproved  machine.State = "APPROVED"
	MemberCompleted machine.State = "COMPLETED"
	MemberStale     machine.State = "STALE"
	MemberFailed    machine.State = "FAILED"
)

// The events of a crew member.
//
// An attempt that fails is judged first: MemberAttemptFailed while attempts are left,
// MemberMaxAttempts when that was the last, MemberWorkFailed when another could not
// help. Back from STALE, the event depends on where the member had been:
// MemberSetupRecovered in ASSIGNED, MemberRecovered in WORKING, MemberResolved in
// IN_REVIEW.
const (
	MemberSpawn            machine.Event = "spawn"
	MemberAssign           machine.Event = "assign_task"
	MemberStart            machine.Event = "start_work"
	MemberSetupFailed      machine.Event = "setup_failed"
	MemberSubmit           machine.Event = "submit_pr"
	MemberAttemptFailed    machine.Event = "attempt_failed"
	MemberMaxAttempts      machine.Event = "max_attempts"
	MemberWorkFailed       machine.Event = "work_failed"
	MemberHeartbeatTimeout machine.Event = "heartbeat_timeout"
	MemberDied             machine.Event = "died"
	MemberApprove          machine.Event = "review_approved"
	MemberRequestChanges   machine.Event = "changes_requested"
	MemberReviewTimeout    machine.Event = "review_timeout"
	MemberHeadMoved        machine.Event = "head_moved"
	MemberMerge            machine.Event = "merge_success"
	MemberMergeConflict    machine.Event = "merge_conflict"
	MemberRecovered        machine.Event = "worker_recovered"
	MemberSetupRecovered   machine.Event = "setup_recovered"
	MemberResolved         machine.Event = "resolved"
	MemberReassign         machine.Event = "reassign"
	MemberTimeoutExceeded  machine.Event = "timeout_exceeded"
	MemberCancel           machine.Event = "cancel"
	MemberRetry            machine.Event = "retry"
	MemberReset            machine.Event = "reset"
	MemberRecycle          machine.Event = "recycle"
	MemberAttention        machine.Event = "attention"
	MemberAttentionCleared machine.Event = "attention_cleared"
)

// Member is an agent that codes on its own git branch. It is resident: its
// identity outlives every task, so it has no end.
var Member = &machine.Machine{
	Name:    "member",
	Doc:     "a crew member: an agent that codes on its own git branch",
	Create:  MemberSpawn,
	Initial: MemberIdle,
	States: []machine.State{
		MemberIdle, MemberAssigned, MemberWorking, MemberInReview,
		MemberApproved, MemberCompleted, MemberStale, MemberFailed,
	},
	Resident: true,
	Table: machine.Table{
		MemberIdle: {
			MemberAssign: MemberAssigned,
		},
		MemberAssigned: {
			MemberStart:            MemberWorking,
			MemberSetupFailed:      MemberFailed,
			MemberHeartbeatTimeout: MemberStale,
			MemberDied:             MemberStale,
			MemberCancel:           MemberFailed,
			MemberAttention:        MemberAssigned,
			MemberAttentionCleared: MemberAssigned,
		},
		MemberWorking: {
			MemberSubmit:           MemberInReview,
			MemberAttemptFailed:    MemberAssigned,
			MemberMaxAttempts:      MemberFailed,
			MemberWorkFailed:       MemberFailed,
			MemberHeartbeatTimeout: MemberStale,
			MemberDied:             MemberStale,
			MemberCancel:           MemberFailed,
			MemberAttention:        MemberWorking,
			MemberAttentionCleared: MemberWorking,
		},
		// There are no beats during a review, so silence is no reason to leave it.
		MemberInReview: {
			MemberApprove:          MemberApproved,
			MemberRequestChanges:   MemberWorking,
			MemberReviewTimeout:    MemberStale,
			MemberCancel:           MemberFailed,
			MemberAttention:        MemberInReview,
			MemberAttentionCleared: MemberInReview,
		},
		MemberApproved: {
			MemberMerge:            MemberCompleted,
			MemberMergeConflict:    MemberWorking,
			MemberHeadMoved:        MemberInReview,
			MemberCancel:           MemberFailed,
			MemberAttention:        MemberApproved,
			MemberAttentionCleared: MemberApproved,
		},
		MemberCompleted: {
			MemberRecycle: MemberIdle,
		},
		MemberStale: {
			MemberSetupRecovered:  MemberAssigned,
			MemberRecovered:       MemberWorking,
			MemberResolved:        MemberInReview,
			MemberReassign:        MemberAssigned,
			MemberTimeoutExceeded: MemberFailed,
			MemberCancel:          MemberFailed,
		},
		MemberFailed: {
			MemberRetry: MemberAssigned,
			MemberReset: MemberIdle,
		},
	},
}
