package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// MaxRecord is the greatest number of bytes of a record.
const MaxRecord = 16 << 20

// records yields the records of an agent, and an error as the last one if they are damaged. Without a
// file there are none.
func (a *Agent) records() iter.Seq2[*loadpb.ResultRecord, error] {
	return func(yield func(*loadpb.ResultRecord, error) bool) {
		if a.Records == "" {
			return
		}
		file, err := a.open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer file.Close()
		in := bufio.NewReader(file)
		for n := 1; ; n++ {
			record := &loadpb.ResultRecord{}
			err := protodelim.UnmarshalOptions{MaxSize: MaxRecord}.UnmarshalFrom(in, record)
			if err == io.EOF { // and not within a record
				return
			}
			if err == nil {
				err = check(record)
			}
			if err != nil {
				yield(nil, fmt.Errorf("record %d of the result is damaged: %w", n, err))
				return
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

func (a *Agent) open() (fs.File, error) {
	if a.files != nil {
		return a.files.Open(a.Records)
	}
	return os.Open(a.Records)
}

// check returns what is wrong with a record of an agent, which may be anybody's program: names
// become those of files and cells, and numbers are computed with.
func check(record *loadpb.ResultRecord) error {
	r := record.GetResult()
	if err := checkSeconds(r.GetSeconds(), r.GetCpuUserSeconds(), r.GetCpuSystemSeconds(), r.GetPrepare().GetSeconds()); err != nil {
		return err
	}
	if err := checkOperations(r.GetTotals()); err != nil {
		return err
	}
	return CheckInterval(record.GetInterval())
}

// CheckInterval returns what is wrong with an interval of an agent.
func CheckInterval(i *loadpb.Interval) error {
	if i.GetEndNs() < i.GetStartNs() || i.GetStartNs() < 0 || i.GetEndNs() > int64(maxRun) {
		return fmt.Errorf("from %d ns to %d ns is not a valid interval", i.GetStartNs(), i.GetEndNs())
	}
	if err := checkSeconds(i.GetCpuUserSeconds(), i.GetCpuSystemSeconds()); err != nil {
		return err
	}
	return checkOperations(i.GetOperations())
}

func checkSeconds(all ...float64) error {
	for _, f := range all {
		if !(f >= 0 && f <= maxRun.Seconds()) {
			return fmt.Errorf("%v is not a valid number of seconds", f)
		}
	}
	return nil
}

func checkOperations(all []*loadpb.OperationStats) error {
	for _, s := range all {
		if !slices.Contains(spec.Kinds, spec.Kind(s.GetOperation())) || s.GetSizeClass() != "" && rank(s.GetSizeClass()) < 0 {
			return fmt.Errorf("%.50q of size class %.50q is no operation", s.GetOperation(), s.GetSizeClass())
		}
	}
	return nil
}

// maxRun is longer than any run.
const maxRun = 10 * spec.MaxDuration

// resultOf returns the record that ends a result, and what is wrong with the records. It is nil
// if there is none.
func (a *Agent) result() (last *loadpb.Result, problem error) {
	end := a.end()
	return end.result, end.problem
}

// An end is what is known of records when all of them are read.
type end struct {
	result    *loadpb.Result // nil: there is none
	problem   error          // with the records
	intervals int
	until     time.Duration // the end of the last interval
	backlog   uint64        // operations that were due and had not begun in the last interval
}

func (a *Agent) end() (e end) {
	sound := stats.Table{}
	for record, err := range a.records() {
		if err == nil {
			sound.Reset()
			err = sound.Add(slices.Concat(record.GetInterval().GetOperations(), record.GetResult().GetTotals()))
		}
		if err != nil {
			e.problem = err
			return e
		}
		if i := record.GetInterval(); i != nil {
			e.intervals, e.until, e.backlog = e.intervals+1, time.Duration(i.GetEndNs()), i.GetBacklog()
		}
		if r := record.GetResult(); r != nil {
			e.result = r
		}
	}
	if e.result == nil && a.Records != "" {
		e.problem = errors.New("the result ends before its last record")
	}
	return e
}

// intervals yields the intervals of an agent, up to the first damage.
func (a *Agent) intervals() iter.Seq[*loadpb.Interval] {
	return func(yield func(*loadpb.Interval) bool) {
		for record, err := range a.records() {
			if err != nil {
				return
			}
			if i := record.GetInterval(); i != nil && !yield(i) {
				return
			}
		}
	}
}

// A slice is one interval of a run: the same time of all agents.
type slice struct {
	start, end time.Duration
	warmup     bool
	table      stats.Table // all agents together; valid until the next slice
	scratch    *stats.Counter
	parts      []part
	backlog    uint64
}

// A part is one agent's interval.
type part struct {
	agent int // its place in Run.Agents
	*loadpb.Interval
}

func (p part) seconds() float64 { return float64(p.GetEndNs()-p.GetStartNs()) / 1e9 }

func (s *slice) seconds() float64 { return (s.end - s.start).Seconds() }

// sum is sum for a table of an interval. It is valid until the next call.
func (s *slice) sum(t stats.Table, operation string) *stats.Counter {
	s.scratch.Reset()
	addUp(s.scratch, t, operation)
	return s.scratch
}

// walk calls f with each interval of a run in order, all agents together. Intervals of different
// agents are the same if their starts differ by less than a 16th of the run's interval; a warm-up
// may end within one and shift the others. Only one interval of each agent is in memory at a time.
func walk(run *Run, f func(*slice) error) error {
	var heads []*head
	for i := range run.Agents {
		next, stop := iter.Pull(run.Agents[i].intervals())
		defer stop()
		h := &head{agent: i, next: next}
		h.advance()
		heads = append(heads, h)
	}
	s := &slice{table: stats.Table{}, scratch: &stats.Counter{}}
	for {
		first := ended
		for _, h := range heads {
			first = min(first, h.start)
		}
		if first == ended {
			return nil
		}
		s.gather(heads, first+max(run.Test.Interval/16, 1))
		if len(s.parts) == 0 {
			continue
		}
		if err := f(s); err != nil {
			return err
		}
	}
}

// A head is the next interval of an agent.
type head struct {
	agent int
	next  func() (*loadpb.Interval, bool)
	now   *loadpb.Interval
	start time.Duration // of it, or ended
}

// ended is the start of the interval after the last one.
const ended = time.Duration(math.MaxInt64)

func (h *head) advance() {
	h.start = ended
	if i, ok := h.next(); ok {
		h.now, h.start = i, time.Duration(i.GetStartNs())
	}
}

// gather makes s what begins before that time. An agent whose statistics are damaged ends there;
// Evaluate has reported it.
func (s *slice) gather(heads []*head, before time.Duration) {
	*s = slice{table: s.table, scratch: s.scratch, parts: s.parts[:0], start: ended}
	s.table.Reset()
	for _, h := range heads {
		if h.start >= before {
			continue
		}
		i := h.now
		if s.table.Add(i.GetOperations()) != nil {
			h.start = ended
			continue
		}
		s.start, s.end = min(s.start, h.start), max(s.end, time.Duration(i.GetEndNs()))
		s.warmup = s.warmup || i.GetWarmup()
		s.backlog += i.GetBacklog()
		s.parts = append(s.parts, part{h.agent, i})
		h.advance()
	}
}

// Transitions returns the transitions of the agent's machine that its result has, in order.
func (a *Agent) Transitions() []*loadpb.Transition {
	result, _ := a.result()
	return result.GetTransitions()
}
