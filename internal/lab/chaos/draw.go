package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// A kind is what a fault does.
type kind string

// The kinds of faults.
const (
	killFault      kind = "kill"       // signal 9, and started again
	pauseFault     kind = "pause"      // SIGSTOP for less than the silence
	freezeFault    kind = "freeze"     // SIGSTOP for longer than the silence
	restartFault   kind = "restart"    // SIGTERM, and started again
	rollFault      kind = "roll"       // that for every process of the role, one after another
	databaseFault  kind = "database"   // signal 9 for the database, and started again
	cutFault       kind = "cut"        // the connections of one process
	cutAllFault    kind = "cut all"    // the connections of every process
	deafFault      kind = "deaf"       // the answers of the database are lost for a while
	slowFault      kind = "slow"       // the network of one process is slow for a while
	blackholeFault kind = "black hole" // nothing passes for longer than the silence, and all of it then
	fullFault      kind = "disk full"
	forwardFault   kind = "clock forward" // the wall clock of a process, or on SQLite of all, jumps and stays there
	backFault      kind = "clock back"
	slipFault      kind = "clock slip" // back, and after a while right again
	cancelVerb     kind = "cancel"
	pauseVerb      kind = "pause and resume"
	retryVerb      kind = "retry"
)

// A fault is drawn before the run, so that the seed alone says when what befalls
// whom. Pick is taken modulo what there is.
type fault struct {
	Kind  kind          `json:"kind"`
	Role  string        `json:"role,omitempty"` // of its victim
	Pick  int           `json:"pick"`
	Busy  bool          `json:"busy,omitempty"` // a victim that holds a step is preferred
	After time.Duration `json:"after"`          // since the round began
	For   time.Duration `json:"for,omitempty"`  // how long it lasts, or how long until the victim is started again
	Step  time.Duration `json:"step,omitempty"` // of a clock
}

func (f fault) String() string { return strings.TrimSpace(string(f.Kind) + " " + f.Role) }

// A round is what happens in one.
type round struct {
	Jobs   []string `json:"jobs"` // shapes
	Faults []fault  `json:"faults"`
}

// A chance is how often a fault is drawn, beside the others.
type chance struct {
	kind   kind
	role   string
	weight int
}

// onPostgres and onSQLite are what befalls a run on each database.
var (
	onPostgres = []chance{
		{killFault, worker, 10}, {killFault, server, 6}, {killFault, dev, 4},
		{pauseFault, worker, 2}, {pauseFault, server, 2}, {freezeFault, worker, 4}, {freezeFault, server, 2},
		{restartFault, worker, 3}, {restartFault, server, 2}, {rollFault, worker, 1}, {rollFault, server, 1},
		{databaseFault, "", 4}, {cutFault, "", 3}, {cutAllFault, "", 2}, {deafFault, "", 2}, {slowFault, "", 2}, {blackholeFault, worker, 2}, {blackholeFault, server, 1},
		{forwardFault, worker, 2}, {forwardFault, server, 2}, {backFault, worker, 2}, {backFault, server, 2}, {slipFault, "", 2},
	}
	onSQLite = []chance{{killFault, dev, 10}, {restartFault, dev, 3}, {pauseFault, dev, 1}, {fullFault, "", 3}, {forwardFault, "", 2}, {backFault, "", 2}, {slipFault, "", 1}}
	// onFar are further ones on SQLite, where only workers over a server are apart from it.
	onFar = []chance{{killFault, worker, 8}, {freezeFault, worker, 4}, {pauseFault, worker, 1}, {restartFault, worker, 2}, {cutFault, worker, 3}, {deafFault, worker, 3}, {slowFault, worker, 1}, {blackholeFault, worker, 3}}
	verbs = []chance{{cancelVerb, "", 3}, {pauseVerb, "", 3}, {retryVerb, "", 2}}
)

// drawRounds draws a whole run.
func drawRounds(seed uint64, rounds, jobs int, silence time.Duration, chances []chance) []round {
	r := rand.New(rand.NewPCG(seed, 0))
	names := drawJobs(r, jobs)
	plan := make([]round, rounds)
	for i := range plan {
		from, to := i*jobs/rounds, (i+1)*jobs/rounds
		plan[i].Jobs = names[from:to]
		for range 1 + r.IntN(2) {
			plan[i].Faults = append(plan[i].Faults, drawFault(r, silence, chances))
		}
		if r.IntN(2) == 0 {
			plan[i].Faults = append(plan[i].Faults, drawFault(r, silence, verbs))
		}
	}
	return plan
}

func drawFault(r *rand.Rand, silence time.Duration, chances []chance) fault {
	total := 0
	for _, c := range chances {
		total += c.weight
	}
	n := r.IntN(total)
	for _, c := range chances {
		if n -= c.weight; n < 0 {
			f := fault{Kind: c.kind, Role: c.role, Pick: r.IntN(1 << 16), Busy: r.IntN(3) > 0, After: between(r, 50*time.Millisecond, 500*time.Millisecond)}
			f.For = length(r, c.kind, silence)
			f.Step = leap(r, c)
			return f
		}
	}
	return fault{}
}

// length draws how long a fault lasts.
func length(r *rand.Rand, k kind, silence time.Duration) time.Duration {
	switch k {
	case freezeFault, blackholeFault:
		return silence + between(r, silence/4, silence)
	case pauseFault, pauseVerb:
		return between(r, 100*time.Millisecond, silence*3/4)
	case deafFault, slowFault, fullFault, slipFault:
		return between(r, 200*time.Millisecond, silence)
	}
	return between(r, 0, 300*time.Millisecond)
}

// leaps bound by how much a clock jumps, and lag by how much that of SQLite is set
// back for good: what waits for a time there waits for longer by that.
const (
	minLeap = time.Second
	maxLeap = 6 * time.Hour
	lag     = 5 * time.Second
)

// leap draws by how much a clock jumps: by seconds as often as by hours.
func leap(r *rand.Rand, c chance) time.Duration {
	most := maxLeap
	switch c.kind {
	case backFault:
		if c.role == "" {
			most = lag
		}
	case forwardFault, slipFault:
	default:
		return 0
	}
	d := time.Duration(float64(minLeap) * math.Pow(float64(most/minLeap), r.Float64())).Round(time.Second)
	if c.kind == forwardFault {
		return d
	}
	return -d
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}
