package console

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// fewInstances is how many instances a fan-out may have to be reported one by one.
const fewInstances = 10

// A fanOut is the progress of a fan-out of more than fewInstances between two calls of Show.
// It is reported in tenths; single instances are reported only if remarkable.
type fanOut struct {
	total  int
	before int // done at the last call
	done   int
	at     pawl.Timestamp // when the last of them was done
}

// fanOuts finds the large fan-outs by the key of their step, and reports those that have
// passed another tenth.
func (t *Transcript) fanOuts(steps []pawl.StepView) map[string]*fanOut {
	all := make(map[string]*fanOut)
	for i := range steps {
		s := &steps[i]
		node, _, instance := strings.Cut(s.Key, "[")
		switch c := all[node]; {
		case c != nil && instance:
			c.count(t.seen[s.Key], s)
		case s.Instances != nil && s.Instances.Total > fewInstances:
			all[node] = &fanOut{total: s.Instances.Total}
		}
	}
	for node, c := range all {
		if c.done*10/c.total > c.before*10/c.total {
			t.lines = append(t.lines, change{c.at.Time(), fmt.Sprintf("%s: %d of %d done", node, c.done, c.total)})
		}
	}
	return all
}

func (c *fanOut) count(was pawl.StepView, s *pawl.StepView) {
	if done(&was) {
		c.before++
	}
	if done(s) {
		c.done++
		c.at = max(c.at, s.CompletedAt)
	}
}

// done reports whether an instance has ended by itself.
func done(s *pawl.StepView) bool {
	switch s.Status {
	case lifecycle.StepComplete, lifecycle.StepSkipped, lifecycle.StepPermanentError, lifecycle.StepResolvedManually:
		return true
	}
	return false
}

// remarkable reports whether an instance of a fanOut is reported by itself: it has failed, is
// being retried, or waits for a person.
func (t *Transcript) remarkable(s *pawl.StepView) bool {
	switch s.Status {
	case lifecycle.StepComplete, lifecycle.StepCancelled, lifecycle.StepSkipped:
		return false
	case lifecycle.StepInProgress:
		return s.Attempts > 1 || Answer(s, t.id, t.Given) != ""
	}
	return true
}
