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

// The events of a service. ServiceStop requests the end, ServiceHasStopped records it.
// Act, settle and shift keep the state: an action was accepted, an action has an
// outcome, and the service moved to another of its own states that stand for this one.
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
	ServiceAct        machine.Event = "act"
	ServiceSettle     machine.Event = "settle"
	ServiceShift      machine.Event = "shift"
)

// Service is what a supervisor keeps converged on its desired state. It is
// resident: it lives until it is removed.
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
			ServiceAct:    ServiceStopped,
			ServiceSettle: ServiceStopped,
			ServiceShift:  ServiceStopped,
		},
		ServiceTryingToStart: {
			ServiceHasStarted: ServiceRunning,
			ServiceStop:       ServiceTryingToStop,
			ServiceGiveUp:     ServiceFailed,
			ServiceAct:        ServiceTryingToStart,
			ServiceSettle:     ServiceTryingToStart,
			ServiceShift:      ServiceTryingToStart,
		},
		ServiceRunning: {
			ServiceDegrade:  ServiceDegraded,
			ServiceExit:     ServiceTryingToStart,
			ServiceStop:     ServiceTryingToStop,
			ServiceComplete: ServiceStopped,
			ServiceGiveUp:   ServiceFailed,
			ServiceAct:      ServiceRunning,
			ServiceSettle:   ServiceRunning,
			ServiceShift:    ServiceRunning,
		},
		ServiceDegraded: {
			ServiceRecover: ServiceRunning,
			ServiceExit:    ServiceTryingToStart,
			ServiceStop:    ServiceTryingToStop,
			ServiceGiveUp:  ServiceFailed,
			ServiceAct:     ServiceDegraded,
			ServiceSettle:  ServiceDegraded,
			ServiceShift:   ServiceDegraded,
		},
		ServiceTryingToStop: {
			ServiceHasStopped: ServiceStopped,
			ServiceGiveUp:     ServiceFailed,
			ServiceAct:        ServiceTryingToStop,
			ServiceSettle:     ServiceTryingToStop,
			ServiceShift:      ServiceTryingToStop,
		},
		ServiceFailed: {
			ServiceStart:  ServiceTryingToStart,
			ServiceReset:  ServiceStopped,
			ServiceRemove: ServiceRemoved,
			ServiceAct:    ServiceFailed,
			ServiceSettle: ServiceFailed,
			ServiceShift:  ServiceFailed,
		},
	},
}
