package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a load agent's run (L1).
const (
	AgentIdle           machine.State = "IDLE"
	AgentConfigReceived machine.State = "CONFIG_RECEIVED"
	AgentReady          machine.State = "READY"
	AgentRunning        machine.State = "RUNNING"
	AgentCompleted      machine.State = "COMPLETED"
	AgentError          machine.State = "ERROR"
	AgentAborted        machine.State = "ABORTED"
)

// The events of a load agent's run. Messages are judged first: a config is valid or
// not, a start time is accepted, past or too far ahead. An accepted start
// (AgentStartAccepted) ends the deadline of READY and leaves the run there; AgentStart
// means that its time has come (L3).
const (
	AgentConnect         machine.Event = "connect"
	AgentConfig          machine.Event = "config"
	AgentInvalidConfig   machine.Event = "invalid_config"
	AgentInvalidMessage  machine.Event = "invalid_message"
	AgentPrepareComplete machine.Event = "prepare_complete"
	AgentPrepareFailed   machine.Event = "prepare_failed"
	AgentStartAccepted   machine.Event = "start_accepted"
	AgentStartPast       machine.Event = "start_past"
	AgentStartTooFar     machine.Event = "start_too_far"
	AgentStart           machine.Event = "start"
	AgentPing            machine.Event = "ping"
	AgentFinish          machine.Event = "workload_finished"
	AgentFail            machine.Event = "workload_failed"
	AgentTimeout         machine.Event = "timeout"
	AgentConnectionLost  machine.Event = "connection_lost"
	AgentAbort           machine.Event = "abort"
)

// Agent is one run of a load agent. Every error ends it; the agent is ready for
// the next run, which is a machine of its own (L5).
var Agent = &machine.Machine{
	Name:    "agent",
	Doc:     "one run of a load agent, driven by a controller",
	Create:  AgentConnect,
	Initial: AgentIdle,
	States: []machine.State{
		AgentIdle, AgentConfigReceived, AgentReady, AgentRunning,
		AgentCompleted, AgentError, AgentAborted,
	},
	Ends: []machine.State{AgentCompleted, AgentError, AgentAborted},
	Table: machine.Table{
		AgentIdle: {
			AgentConfig:         AgentConfigReceived,
			AgentInvalidConfig:  AgentError,
			AgentInvalidMessage: AgentError,
			AgentTimeout:        AgentError,
			AgentConnectionLost: AgentError,
			AgentAbort:          AgentAborted,
			AgentPing:           AgentIdle,
		},
		AgentConfigReceived: {
			AgentPrepareComplete: AgentReady,
			AgentPrepareFailed:   AgentError,
			AgentInvalidMessage:  AgentError,
			AgentTimeout:         AgentError,
			AgentConnectionLost:  AgentError,
			AgentAbort:           AgentAborted,
			AgentPing:            AgentConfigReceived,
		},
		AgentReady: {
			AgentStartAccepted:  AgentReady,
			AgentStart:          AgentRunning,
			AgentStartPast:      AgentError,
			AgentStartTooFar:    AgentError,
			AgentFail:           AgentError, // the engine has ended while it waits for its time
			AgentInvalidMessage: AgentError,
			AgentTimeout:        AgentError,
			AgentConnectionLost: AgentError,
			AgentAbort:          AgentAborted,
			AgentPing:           AgentReady,
		},
		AgentRunning: {
			AgentFinish:         AgentCompleted,
			AgentFail:           AgentError,
			AgentInvalidMessage: AgentError,
			AgentConnectionLost: AgentError,
			AgentAbort:          AgentAborted,
			AgentPing:           AgentRunning,
		},
	},
}
