package link

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// A Pulse is the content of a beat.
type Pulse struct {
	Node   pawl.Node      // what it is; no row is written where its ID is 0. The store sets its times and skew
	Clock  int64          // the time by the process's own clock
	Worker rowkey.Worker  // the key of its worker, or 0
	Routes []rowkey.Route // of which the worker could take steps
	Claims []Stop         // that the worker runs
	Remote bool           // the worker is on another machine: this process beats for it

	Unnamed bool // Claims does not say what the worker runs
}

// A Pulsed is the reply to a beat.
type Pulsed struct {
	State machine.State // of the worker; empty if there is none
	Stops []Stop        // claims of the worker that are asked to stop (a cancel was requested): those in the Pulse, or all if that was Unnamed
	Taken []Stop        // of the claims in the Pulse, those that the worker no longer has
	Alone bool          // no other worker lives; never set where Worker.Overlap is 1
	Place int           // of the worker among Peers, from 0
	Peers int           // how many workers hear hints and could take the same steps as this one; 0: not known, too many, or it hears none
	Work  bool          // there may be something to claim on the routes; for routes that are new to the store it may be set only by a later beat
}

// A Stop is a claim that is to stop, or may have to.
type Stop struct {
	pawl.StepKey
	Claim int
}
