package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a load, as its controller has it (L7).
const (
	LoadConnecting machine.State = "CONNECTING"
	LoadPreparing  machine.State = "PREPARING"
	LoadStarting   machine.State = "STARTING"
	LoadRunning    machine.State = "RUNNING"
	LoadEnding     machine.State = "ENDING"
	LoadCompleted  machine.State = "COMPLETED"
	LoadFailed     machine.State = "FAILED"
	LoadAborted    machine.State = "ABORTED"
)

// The events of a load. An agent that fails (LoadAgentFailed) leaves it where it is; whether too
// few are left, which is LoadFail, is judged by the policy of the load.
const (
	LoadBegin           machine.Event = "begin"
	LoadAgentsConnected machine.Event = "agents_connected"
	LoadAgentsReady     machine.Event = "agents_ready"
	LoadStart           machine.Event = "start"
	LoadFinish          machine.Event = "workload_finished"
	LoadAgentFailed     machine.Event = "agent_failed"
	LoadFail            machine.Event = "fail"
	LoadAbort           machine.Event = "abort"
	LoadEndedFailed     machine.Event = "ended_failed"
	LoadEndedAborted    machine.Event = "ended_aborted"
)

// Load is one load on some agents. Each agent has a machine of its own, Agent.
var Load = &machine.Machine{
	Name:    "load",
	Doc:     "one load on some agents, as its controller has it",
	Create:  LoadBegin,
	Initial: LoadConnecting,
	States: []machine.State{
		LoadConnecting, LoadPreparing, LoadStarting, LoadRunning, LoadEnding,
		LoadCompleted, LoadFailed, LoadAborted,
	},
	Ends: []machine.State{LoadCompleted, LoadFailed, LoadAborted},
	Table: machine.Table{
		LoadConnecting: {
			LoadAgentsConnected: LoadPreparing,
			LoadAgentFailed:     LoadConnecting,
			LoadFail:            LoadEnding,
			LoadAbort:           LoadEnding,
		},
		LoadPreparing: {
			LoadAgentsReady: LoadStarting,
			LoadAgentFailed: LoadPreparing,
			LoadFail:        LoadEnding,
			LoadAbort:       LoadEnding,
		},
		LoadStarting: { // the clocks are measured
			LoadStart:       LoadRunning,
			LoadAgentFailed: LoadStarting,
			LoadFail:        LoadEnding,
			LoadAbort:       LoadEnding,
		},
		LoadRunning: {
			LoadFinish:      LoadCompleted,
			LoadAgentFailed: LoadRunning,
			LoadFail:        LoadEnding,
			LoadAbort:       LoadEnding,
		},
		LoadEnding: { // the agents end and clean up
			LoadAgentFailed:  LoadEnding,
			LoadEndedFailed:  LoadFailed,
			LoadEndedAborted: LoadAborted,
		},
	},
}
