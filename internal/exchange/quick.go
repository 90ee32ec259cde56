package exchange

import (
	"math"
	"slices"
)

// maxDelay is the limit of after_ms, a year.
const maxDelay = 31_622_400_000

// QuickRequest reads a request that is written as usual and within all limits of its schema.
// It returns nil for any other, which may be valid all the same: one with holding or the
// error of a step, for example.
func QuickRequest(text []byte) *Request {
	s, r := scanOf(text), new(Request)
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
			r.Reports = reportRoom.take(minRoom)
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

// QuickAnswer reads an answer that is written as usual, or returns nil.
func QuickAnswer(text []byte) *Answer {
	s, a := scanOf(text), new(Answer)
	s.object(func(name []byte) {
		switch string(name) {
		case "state":
			a.State = s.string()
		case "steps":
			a.Steps = stepRoom.take(minRoom)
			like := new(Step)
			s.list(func() {
				a.Steps = append(a.Steps, Step{})
				to := &a.Steps[len(a.Steps)-1]
				s.step(to, like)
				like = to
			})
		case "results":
			a.Results = s.results(len(a.Steps))
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

// step reads a step. It shares texts with another one: the steps of a worker are often alike.
func (s *scan) step(to, like *Step) {
	s.object(func(name []byte) {
		switch string(name) {
		case "step_id":
			to.StepID = s.string()
		case "claim":
			to.Claim.Claim = int(s.integer())
		case "job_id":
			to.JobID = s.string()
		case "key":
			to.Key = s.alike(like.Key)
		case "workflow":
			to.Workflow = s.alike(like.Workflow)
		case "attempt":
			to.Attempt = int(s.integer())
		case "queue":
			to.Queue = s.alike(like.Queue)
		case "handler":
			to.Handler = s.alike(like.Handler)
		case "work":
			s.work(&to.Work, like.Work.Kind)
		case "input":
			to.Input = s.value()
		case "output_mode":
			to.OutputMode = s.alike(like.OutputMode)
		case "timeout_ms":
			to.TimeoutMS = s.integer()
		case "isolation":
			to.Isolation = s.alike(like.Isolation)
		case "dir":
			to.Dir = s.alike(like.Dir)
		case "traceparent":
			to.Traceparent = s.string()
		case "redelivered":
			to.Redelivered = s.bool()
		default:
			s.rest(name, to)
		}
	})
}

func (s *scan) work(to *Work, kind string) {
	s.object(func(name []byte) {
		switch string(name) {
		case "kind":
			to.Kind = s.alike(kind)
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

// results reads the list of what became of reports, which are mostly alike. There may be about as many
// as room says.
func (s *scan) results(room int) []string {
	all, last := make([]string, 0, room), ""
	s.list(func() {
		last = s.alike(last)
		all = append(all, last)
	})
	return all
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
