package verify

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Limits of an exploration. Beyond them it continues at random.
const (
	MaxStates  = 20_000
	maxWork    = 1_000_000 // steps that are visited
	randomRuns = 300
	randomWork = 500_000
)

// An explorer goes through everything that can happen to a job. From each state it lets
// the first step in progress end in every way that makes a difference, and continues
// from each. States that differ only in what no longer matters count as one. That is
// enough, since the outcomes of two independent steps do not depend on which of them
// ends first. How a step fails does not matter to other steps: every way of failing is
// tried where the step first runs, and later they count as one.
type explorer struct {
	r        *expressions.Reading
	pick     func(n int) int
	actor    func(w *rehearsal.World) *pawl.Step // returns the step whose turn it is
	seen     map[[16]byte]bool
	ways     map[int]bool    // nodes whose ways of failing were tried
	began    map[int]bool    // nodes that have run
	truths   map[int][2]bool // values that conditions had: false, true
	opaques  map[int]bool
	readers  map[int][]int // nodes whose expressions name the output or status of one
	named    map[int]bool  // nodes that the job's output names
	work     int
	states   int
	outcomes int
	endings  map[machine.State]int
	cut      bool                       // a limit was reached
	endless  map[int]rehearsal.Timeline // the path to a wait that does not end by itself
	report   func(Finding, *rehearsal.World)
	fault    error
	stop     <-chan struct{} // closed to stop the exploration
	buffer   []byte          // of key
}

func newExplorer(r *expressions.Reading) *explorer {
	x := &explorer{r: r, actor: actor, seen: map[[16]byte]bool{}, ways: map[int]bool{}, began: map[int]bool{}, truths: map[int][2]bool{},
		opaques: map[int]bool{}, readers: map[int][]int{}, named: map[int]bool{}, endless: map[int]rehearsal.Timeline{}, endings: map[machine.State]int{}}
	for _, e := range r.Exprs {
		for _, n := range e.Nodes() {
			if e.Use == expressions.UseOutput {
				x.named[n] = true
			} else if !slices.Contains(x.readers[n], e.Node) {
				x.readers[n] = append(x.readers[n], e.Node)
			}
		}
	}
	return x
}

// run explores everything, or as much as the limits allow and then some paths at
// random.
func (x *explorer) run(sets []json.RawMessage) {
	var queue []*rehearsal.World
	for _, set := range sets {
		origin := rehearsal.New(x.r.Definition, set, x)
		queue = append(queue, x.follow(origin, (*rehearsal.World).Start)...)
	}
	for len(queue) > 0 && !x.over() {
		if x.states >= MaxStates || x.work >= maxWork {
			x.cut = true
			break
		}
		w := queue[0]
		queue[0] = nil
		queue = append(queue[1:], x.follow(w, x.advance)...)
	}
	if x.cut && !x.over() {
		x.random(sets)
	}
}

// over reports whether the exploration has to stop.
func (x *explorer) over() bool {
	select {
	case <-x.stop:
		return true
	default:
		return x.fault != nil
	}
}

// follow does something to a world in every way in which it can turn out, and returns
// the worlds that are new and have not ended.
func (x *explorer) follow(origin *rehearsal.World, do func(*rehearsal.World) error) []*rehearsal.World {
	var next []*rehearsal.World
	for script := []int{}; ; {
		var counts []int
		x.pick = func(n int) int {
			i := len(counts)
			counts = append(counts, n)
			if i == len(script) {
				script = append(script, 0)
			}
			return script[i]
		}
		w := origin.Clone()
		x.outcomes++
		x.work += len(w.All()) + 1
		err := do(w)
		if x.arrived(w, err) {
			w.Compact(origin)
			next = append(next, w)
		}
		script = script[:len(counts)]
		for len(script) > 0 && script[len(script)-1]+1 >= counts[len(script)-1] {
			script = script[:len(script)-1]
		}
		if len(script) == 0 || x.over() {
			return next
		}
		script[len(script)-1]++
	}
}

// arrived records a world after a step, and reports whether to continue from it.
func (x *explorer) arrived(w *rehearsal.World, err error) bool {
	if err == nil {
		err = w.Check()
	}
	if err != nil {
		x.fault = err
		x.report(Finding{Rule: "broken", Severity: Err, Message: "a decision about this workflow fails: " + err.Error(), Why: "this is a fault of Pawl and not of the workflow", Hint: "please report it, with the file"}, w)
		return false
	}
	if w.Ended() {
		x.endings[w.Job().State]++
		return false
	}
	key := x.key(w)
	if x.seen[key] {
		return false
	}
	x.seen[key] = true
	x.states++
	return true
}

// random runs jobs to their end in ways that a seeded generator picks.
func (x *explorer) random(sets []json.RawMessage) {
	rng := rand.New(rand.NewPCG(1, 2))
	x.pick = func(n int) int {
		if n > 1 && rng.IntN(3) > 0 {
			return 0 // otherwise few jobs would get far
		}
		return rng.IntN(n)
	}
	limit := x.work + randomWork
	for run := 0; run < randomRuns && x.work < limit && !x.over(); run++ {
		w := rehearsal.New(x.r.Definition, sets[run%len(sets)], x)
		err := w.Start()
		x.arrived(w, err)
		for err == nil && !w.Ended() && !x.over() {
			x.outcomes++
			x.work += len(w.All()) + 1
			err = x.advance(w)
			x.arrived(w, err)
		}
	}
}

// key identifies what still matters of a world.
func (x *explorer) key(w *rehearsal.World) [16]byte {
	b := x.buffer[:0]
	text := func(parts ...string) {
		for _, p := range parts {
			b = append(append(b, p...), '|')
		}
	}
	number := func(numbers ...int) {
		for _, n := range numbers {
			b = append(strconv.AppendInt(b, int64(n), 10), ' ')
		}
	}
	text(string(w.Job().State), string(w.Job().Ending), string(w.Inputs))
	number(int(w.Job().Hooks))
	for _, s := range w.All() {
		n, over := s.Ord.Node(), lifecycle.Step.Ended(s.State)
		if over && s.Ord.Instance() != 0 && lifecycle.Step.Ended(w.At(s.Ord.Parent()).State) {
			continue
		}
		number(int(s.Ord))
		switch {
		case over && x.matters(w, n):
			text(string(s.State), string(s.Output))
		case over:
			text(".")
		default:
			skipped := 0
			if s.Skipped {
				skipped = 1
			}
			number(int(s.Mark), s.Unmet, skipped, s.Attempts, s.Losses, s.Made, s.Live, s.Total)
			text(string(s.State), string(s.DueEvent), string(s.Input))
		}
	}
	for _, fact := range slices.Sorted(maps.Keys(w.Facts)) {
		text(fact, strconv.FormatBool(w.Facts[fact]))
	}
	x.buffer = b
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// matters reports whether anything will still read the output or the status of a node.
func (x *explorer) matters(w *rehearsal.World, n int) bool {
	if x.named[n] && w.Job().Ending == "" {
		return true
	}
	for _, reader := range x.readers[n] {
		if s := w.At(pawl.MakeOrd(reader, 0)); !lifecycle.Step.Ended(s.State) {
			return true
		}
	}
	return false
}
