// Package lifecycle holds the tables: one file per machine, with names and rows and
// nothing else. A move is legal in Pawl only if a row here allows it (K1).
package lifecycle

import "github.com/pawl-dev/pawl/machine"

// All returns every machine, in the order in which they are documented.
func All() []*machine.Machine {
	return []*machine.Machine{Job, Step, Worker, Schedule, Token, QueuePause, Webhook, Service, Member, Agent, Load}
}

// ByName returns the machine of that name, or nil.
func ByName(name string) *machine.Machine {
	for _, m := range All() {
		if m.Name == name {
			return m
		}
	}
	return nil
}
