package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a service (S15).
const (
	ServiceStopped       machine.State = "stopped"
	ServiceTryingToStart machine.State = "trying_to_start"
	ServiceRunning       machine.State = "running"
	ServiceDegraded      machine.State = "degraded"
	ServiceTryingToStop  machine.State = "trying_to_stop"
	ServiceFailed        machine.State = "failed"
	ServiceRemoved       machine.State = "removed"
)

// The events of a service. ServiceStop asks for the end, ServiceHasStopped is
// that it came.
const (
	ServiceAdd        machine.Event = "add"
	ServiceStart      machine.Event = "start"
	ServiceHasStarted machine.Event = "started"
	ServiceDegrade    machine.Event = "degrade"
	ServiceRecover    machine.Event = "recover"
	ServiceExit       machine.Event = "exit"
	ServiceComplete   machine.Event = "complete"
	ServiceStop       machine.Event = "stop"
	ServiceHasStopped machine.Event = "stopped"
	ServiceGiveUp     machine.Event = "give_up"
	ServiceReset      machine.Event = "reset"
	ServiceRemove     machine.Event = "remove"
)

// Service is what a supervisor keeps converged on its desired state. It is
// resident: it lives until somebody removes it.
var Service = &machine.Machine{
	Name:    "service",
	Doc:     "something a supervisor keeps converged on its desired state",
	Create:  ServiceAdd,
	Initial: ServiceStopped,
	States: []machine.State{
		ServiceStopped, ServiceTryingToStart, ServiceRunning, ServiceDegraded,
		ServiceTryingToStop, ServiceFailed, ServiceRemoved,
	},
	Ends:     []machine.State{ServiceRemoved},
	Resident: true,
	Table: machine.Table{
		ServiceStopped: {
			ServiceStart:  ServiceTryingToStart,
			ServiceRemove: ServiceRemoved,
		},
		ServiceTryingToStart: {
			ServiceHasStarted: ServiceRunning,
			ServiceStop:       ServiceTryingToStop,
			ServiceGiveUp:     ServiceFailed,
		},
		ServiceRunning: {
			ServiceDegrade:  ServiceDegraded,
			ServiceExit:     ServiceTryingToStart,
			ServiceStop:     ServiceTryingToStop,
			ServiceComplete: ServiceStopped,
			ServiceGiveUp:   ServiceFailed,
		},
		ServiceDegraded: {
			ServiceRecover: ServiceRunning,
			ServiceExit:    ServiceTryingToStart,
			ServiceStop:    ServiceTryingToStop,
			ServiceGiveUp:  ServiceFailed,
		},
		ServiceTryingToStop: {
			ServiceHasStopped: ServiceStopped,
			ServiceGiveUp:     ServiceFailed,
		},
		ServiceFailed: {
			ServiceStart:  ServiceTryingToStart,
			ServiceReset:  ServiceStopped,
			ServiceRemove: ServiceRemoved,
		},
	},
}
