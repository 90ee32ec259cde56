package exchange

import (
	"bytes"
	"math"
	"slices"
)

// maxDelay is the limit of after_ms, a year.
const maxDelay = 31_622_400_000

// QuickRequest reads a request that is written as usual and within all limits of its schema.
// It returns nil for any other, which may be valid all the same: one with holding or the
// error of a step, for example.
func QuickRequest(text []byte) *Request {
	s, r := scan{text: text}, new(Request)
	s.object(func(name []byte) {
		switch string(name) {
		case "turn":
			r.Turn = s.within(1, math.MaxInt64)
		case "free":
			r.Free = int(s.within(0, MaxFree))
		case "wait_ms":
			ms := s.within(0, MaxWait.Milliseconds())
			r.WaitMS = &ms
		case "reports":
			r.Reports = []Report{}
			s.list(func() { r.Reports = append(r.Reports, s.report()) })
		default:
			s.odd = true
		}
	})
	if !s.end() || r.Turn == 0 || len(r.Reports) > MaxReports {
		return nil
	}
	return r
}

// report reads a report without an error.
func (s *scan) report() (r Report) {
	s.object(func(name []byte) {
		switch string(name) {
		case "step_id":
			r.StepID = string(s.plain())
		case "claim":
			r.Claim.Claim = int(s.within(1, math.MaxInt64))
		case "outcome":
			r.Outcome = outcome(s.plain())
		case "output":
			r.Output = s.value()
		case "after_ms":
			r.AfterMS = s.within(0, maxDelay)
		default:
			s.odd = true
		}
	})
	s.odd = s.odd || r.StepID == "" || r.Claim.Claim == 0 || r.Outcome == ""
	return r
}

// outcome returns the name of an outcome, or "" if it is none.
func outcome(name []byte) string {
	all := [...]string{"complete", "fail", "timeout", "cancel", "release"}
	i := slices.IndexFunc(all[:], func(o string) bool { return o == string(name) })
	if i < 0 {
		return ""
	}
	return all[i]
}

// stepMark occurs at least once in each step of a response. The inputs of steps may have it, too, so
// room is made for maxRoom steps at most before they are read.
var stepMark = []byte(`"step_id":`)

const maxRoom = 1000

// QuickAnswer reads an answer that is written as usual, or returns nil.
func QuickAnswer(text []byte) *Answer {
	s, a := scan{text: text}, new(Answer)
	s.object(func(name []byte) {
		switch string(name) {
		case "state":
			a.State = s.string()
		case "steps":
			a.Steps = make([]Step, 0, min(bytes.Count(text, stepMark), maxRoom))
			s.list(func() { a.Steps = append(a.Steps, Step{}); s.step(&a.Steps[len(a.Steps)-1]) })
		case "results":
			a.Results = s.strings()
		case "stops":
			a.Stops = s.claims()
		case "gone":
			a.Gone = s.claims()
		case "more":
			a.More = s.bool()
		case "next_ms":
			a.NextMS = s.integer()
		default:
			s.odd = true
		}
	})
	if !s.end() {
		return nil
	}
	return a
}

func (s *scan) step(to *Step) {
	s.object(func(name []byte) {
		switch string(name) {
		case "step_id":
			to.StepID = s.string()
		case "claim":
			to.Claim.Claim = int(s.integer())
		case "job_id":
			to.JobID = s.string()
		case "key":
			to.Key = s.string()
		case "workflow":
			to.Workflow = s.string()
		case "attempt":
			to.Attempt = int(s.integer())
		case "queue":
			to.Queue = s.string()
		case "handler":
			to.Handler = s.string()
		case "work":
			s.work(&to.Work)
		case "input":
			to.Input = s.value()
		case "output_mode":
			to.OutputMode = s.string()
		case "timeout_ms":
			to.TimeoutMS = s.integer()
		case "isolation":
			to.Isolation = s.string()
		case "dir":
			to.Dir = s.string()
		case "traceparent":
			to.Traceparent = s.string()
		case "redelivered":
			to.Redelivered = s.bool()
		default:
			s.rest(name, to)
		}
	})
}

func (s *scan) work(to *Work) {
	s.object(func(name []byte) {
		switch string(name) {
		case "kind":
			to.Kind = s.string()
		case "command":
			to.Command = s.strings()
		case "run":
			to.Run = s.string()
		case "dir":
			to.Dir = s.string()
		case "with":
			to.With = s.value()
		default:
			s.rest(name, to)
		}
	})
}

// claims reads a list of claims.
func (s *scan) claims() []Claim {
	all := []Claim{}
	s.list(func() {
		var c Claim
		s.object(func(name []byte) {
			switch string(name) {
			case "step_id":
				c.StepID = s.string()
			case "claim":
				c.Claim = int(s.integer())
			default:
				s.odd = true
			}
		})
		all = append(all, c)
	})
	return all
}
