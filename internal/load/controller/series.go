package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// patience is how many later intervals agents may have reported before one that some of them
// have not is emitted without them.
const patience = 2

// An Interval is what the agents have done in the same part of the run, added up.
type Interval struct {
	Start, End time.Duration // since the start of the run
	Warmup     bool
	Agents     int // how many of them have reported it
	Operations stats.Table
	Backlog    uint64 // operations that were due and had not begun
}

// Seconds returns the length of the interval.
func (i *Interval) Seconds() float64 { return (i.End - i.Start).Seconds() }

// A series adds up the intervals of agents and emits the sums in their order: once all agents
// have reported one, or once others are so far ahead that the rest is not expected any more.
type series struct {
	every   time.Duration // the length of an interval; starts of the same one differ by less than a 16th of it
	emit    func(Interval)
	waiting []*Interval   // by their starts
	next    time.Duration // later than the start of the last one that was emitted
}

// add takes an interval of one of so many agents. One that comes too late is left out.
func (s *series) add(i *loadpb.Interval, agents int) error {
	if err := report.CheckInterval(i); err != nil {
		return err
	}
	start := time.Duration(i.GetStartNs())
	if start < s.next {
		return nil
	}
	sum := s.at(start, time.Duration(i.GetEndNs()))
	sum.End = max(sum.End, time.Duration(i.GetEndNs()))
	sum.Warmup = sum.Warmup || i.GetWarmup()
	sum.Backlog += i.GetBacklog()
	sum.Agents++
	err := sum.Operations.Add(i.GetOperations())
	s.pass(agents)
	return err
}

// at returns the sum of the interval with such a start and end.
func (s *series) at(start, end time.Duration) *Interval {
	for _, sum := range s.waiting {
		if (sum.Start-start).Abs() < s.every/16 && start < sum.End {
			return sum
		}
	}
	sum := &Interval{Start: start, End: end, Operations: stats.Table{}}
	s.waiting = append(s.waiting, sum)
	slices.SortFunc(s.waiting, func(a, b *Interval) int { return cmp.Compare(a.Start, b.Start) })
	return sum
}

// pass emits what is complete, in order.
func (s *series) pass(agents int) {
	for len(s.waiting) > 0 && (s.waiting[0].Agents >= agents || len(s.waiting) > patience) {
		s.shift()
	}
}

// flush emits what is left.
func (s *series) flush() {
	for len(s.waiting) > 0 {
		s.shift()
	}
}

func (s *series) shift() {
	first := s.waiting[0]
	s.waiting, s.next = s.waiting[1:], min(first.Start+s.every/16, first.End) // a warm-up may end sooner
	s.emit(*first)
}
