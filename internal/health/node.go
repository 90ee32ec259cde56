package health

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// The roles of processes.
const (
	RoleServer = "server" // evaluates
	RoleWorker = "worker" // runs steps, and evaluates nothing
	RoleDev    = "dev"    // both
)

// NodeBeat is the interval at which a process without a worker reports that it lives.
const NodeBeat = 10 * time.Second

// Evaluated reports whether one of the processes evaluates: a server heard from recently,
// or a process that has a living worker, not a remote one, and a role other than worker.
func Evaluated(nodes []*pawl.Node, living []*pawl.Worker, now int64) bool {
	plain := make(map[process]bool)
	for _, n := range nodes {
		if n.Role == RoleServer && now-n.BeatAt < (2*NodeBeat).Microseconds() {
			return true
		}
		plain[process{n.Host, n.PID}] = n.Role == RoleWorker
	}
	return slices.ContainsFunc(living, func(w *pawl.Worker) bool { return !w.Remote() && !plain[process{w.Host, w.PID}] })
}

type process struct {
	host string
	pid  int
}
