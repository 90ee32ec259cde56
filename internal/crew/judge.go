package crew

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Limits are the times after which patrol acts (C5). The zero Limits are the defaults.
type Limits struct {
	Stale  time.Duration // of silence, until a member needs attention; default 5 min
	Dead   time.Duration // of silence, until it is stale; and, stale, until it has failed; default 15 min
	Review time.Duration // of a review, until it needs attention; twice that, until it is stale; default 1 h
}

func (l Limits) withDefaults() Limits {
	for _, one := range []struct {
		limit *time.Duration
		or    time.Duration
	}{{&l.Stale, 5 * time.Minute}, {&l.Dead, 15 * time.Minute}, {&l.Review, time.Hour}} {
		if *one.limit == 0 {
			*one.limit = one.or
		}
	}
	return l
}

// The reasons for attention that patrol gives.
const (
	attentionSilent  = "silent"
	attentionOverdue = "review_overdue"
)

// A sight is what patrol has found out about a member.
type sight struct {
	state     machine.State
	from      machine.State // from where it came to its state
	event     machine.Event // by which it came
	arrived   int64         // the version at which it came
	attention text
	run       Run
	since     time.Duration // since it came to its state
	silent    time.Duration // since its last heartbeat, or since it came to its state if that is later
	beat      bool          // there was a heartbeat of its epoch since it came to its state
}

// A verdict is the move that a member should make, with the attention that it then needs.
type verdict struct {
	event     machine.Event // empty for none
	reason    string
	attention text
}

// judge says what patrol should do about a member (C1, C5).
func judge(s *sight, l Limits) verdict {
	switch s.state {
	case lifecycle.MemberAssigned, lifecycle.MemberWorking:
		return judgeWork(s, l)
	case lifecycle.MemberInReview:
		return judgeReview(s, l)
	case lifecycle.MemberStale:
		return judgeStale(s, l)
	}
	return verdict{}
}

func judgeWork(s *sight, l Limits) verdict {
	switch {
	case s.run.Launched && !s.run.Alive && s.run.Exit == nil:
		return verdict{event: lifecycle.MemberDied, reason: "its runner was killed", attention: s.attention}
	case s.run.Launched && !s.run.Alive && !s.cameBack():
		return verdict{event: lifecycle.MemberDied, reason: fmt.Sprintf("its program has ended with code %d, and its runner was killed before it could say so", s.run.Exit.Code), attention: s.attention}
	case !s.run.Launched && s.silent >= l.Dead:
		return verdict{event: lifecycle.MemberHeartbeatTimeout, reason: fmt.Sprintf("no heartbeat for %s (at most %s)", round(s.silent), l.Dead), attention: s.attention}
	case s.silent >= l.Stale && s.attention == "":
		return verdict{event: lifecycle.MemberAttention, reason: fmt.Sprintf("no heartbeat for %s", round(s.silent)), attention: attentionSilent}
	case s.silent < l.Stale && s.attention == attentionSilent:
		return verdict{event: lifecycle.MemberAttentionCleared, reason: "a heartbeat"}
	}
	return verdict{}
}

func judgeReview(s *sight, l Limits) verdict {
	switch {
	case s.since >= 2*l.Review:
		return verdict{event: lifecycle.MemberReviewTimeout, reason: fmt.Sprintf("in review for %s (at most %s)", round(s.since), 2*l.Review), attention: s.attention}
	case s.since >= l.Review && s.attention == "":
		return verdict{event: lifecycle.MemberAttention, reason: fmt.Sprintf("in review for %s", round(s.since)), attention: attentionOverdue}
	}
	return verdict{}
}

// cameBack reports whether the work has come back since its program has ended: no program has begun with it.
func (s *sight) cameBack() bool {
	return (s.event == lifecycle.MemberRequestChanges || s.event == lifecycle.MemberMergeConflict) && s.run.Version < s.arrived
}

// recoveries are the events that lead back from STALE, by the state before it.
var recoveries = map[machine.State]machine.Event{
	lifecycle.MemberAssigned: lifecycle.MemberSetupRecovered,
	lifecycle.MemberWorking:  lifecycle.MemberRecovered,
	lifecycle.MemberInReview: lifecycle.MemberResolved,
}

func judgeStale(s *sight, l Limits) verdict {
	switch {
	case s.beat && (!s.run.Launched || s.run.Alive):
		return verdict{event: recoveries[s.from], reason: "a heartbeat of its assignment"}
	case s.from == lifecycle.MemberInReview: // the work waits for a person, and nobody has to be alive
		return verdict{}
	case s.since >= l.Dead:
		return verdict{event: lifecycle.MemberTimeoutExceeded, reason: fmt.Sprintf("stale for %s (at most %s)", round(s.since), l.Dead), attention: s.attention}
	}
	return verdict{}
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
