package supervisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// A Status describes a service.
type Status struct {
	Identity
	State      string // its name
	Phase      machine.State
	Since      time.Time
	Reason     string // of the state or, if it has none, of the decision that led to it
	Waits      string // what it waits for, in words; empty if unknown
	Generation uint64
	Shutdown   bool
	StopsAfter []string // a stop is under way: dependants that have to end before this one stops
	Escalated  bool
	Escalation string // why it escalated
	Refused    string // why the last decision was refused, if it was
	Seen       Observation
	Action     ActionStatus
}

func (u *service) status(now time.Time) Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.facts(now)
	if u.act != nil {
		f.Action = u.act.status
	}
	t := Status{
		Identity: u.id, State: f.State, Phase: f.Phase, Since: f.Since, Reason: u.state.reason, Waits: u.why(now),
		Generation: f.Generation, Shutdown: f.Shutdown, Refused: u.refusal,
		Seen: f.Seen, Action: f.Action,
	}
	if u.held != nil {
		t.StopsAfter = u.held.awaited(u)
	}
	if u.escalation != nil {
		t.Escalated, t.Escalation = true, *u.escalation
	}
	return t
}

// why returns what a service waits for.
func (u *service) why(now time.Time) string {
	switch a := u.act; {
	case u.frozen:
		return "another supervisor, which writes its trail"
	case u.pending != nil && u.pending.tries > 1:
		return fmt.Sprintf("the journal, which failed %d times", u.pending.tries-1)
	case u.pending != nil:
		return "the journal"
	case u.loading:
		return "the reading of its journal"
	case u.held != nil:
		return "the stop of " + list(u.held.awaited(u))
	case now.Before(u.nextAfter):
		return "the end of the backoff after a panic in Next"
	case a != nil && a.status.InProgress:
		return "action " + a.status.ActionName
	case a != nil && a.live:
		return "action " + a.status.ActionName + ", which is abandoned and still runs"
	case u.denied:
		return "another decision than the last, which was refused: " + u.refusal
	case u.seen.Sequence == 0:
		return "the first observation"
	case u.stale(now):
		return fmt.Sprintf("an observation: the last one is %s old", now.Sub(u.seen.Started).Round(time.Millisecond))
	case a != nil && a.status.Failed && !a.lifted:
		return "another state or desired state: action " + a.status.ActionName + " has failed for good"
	case a != nil && a.status.Kind == KindCancelled && !a.lifted:
		return "another state or desired state: action " + a.status.ActionName + " was cancelled"
	case !u.fresh():
		return "an observation that is newer than action " + a.name()
	case a != nil && now.Before(a.status.NotBefore):
		return "the next attempt of action " + a.status.ActionName
	}
	return u.waits
}

// list joins ids; of many it names a few.
func list(ids []string) string {
	const most = 5
	if rest := len(ids) - most; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), rest)
	}
	return strings.Join(ids, ", ")
}

// name returns the name of the action, or "". After a restart of the supervisor only its
// status is known.
func (a *attempt) name() string {
	if a == nil {
		return ""
	}
	return a.status.ActionName
}

// Stats are numbers of one moment, for gauges.
type Stats struct {
	Services       map[machine.State]int // by the state of the table
	Running        map[string]Running    // by the name of the action
	Abandoned      int                   // actions that ignored their cancellation and still run
	LostCollection int                   // collections likewise
	OldestSeen     time.Duration         // the age of the oldest last observation
	Unseen         int                   // services that were never observed
}

// Running describes the running actions of one name.
type Running struct {
	Count  int
	Oldest time.Duration // the age of the oldest
}

// Stats returns the numbers of this moment. It visits every service.
func (s *Supervisor) Stats() Stats {
	t := Stats{Services: map[machine.State]int{}, Running: map[string]Running{}}
	now := time.Now()
	for _, u := range s.sorted() {
		u.mu.Lock()
		t.add(u, now)
		u.mu.Unlock()
	}
	return t
}

func (t *Stats) add(u *service, now time.Time) {
	t.Services[u.state.phase]++
	t.LostCollection += u.collection.lost
	t.Abandoned += u.abandoned
	if u.seen.Sequence == 0 {
		t.Unseen++
	} else {
		t.OldestSeen = max(t.OldestSeen, now.Sub(u.seen.Started))
	}
	a := u.act
	if a == nil || !a.live {
		return
	}
	if a.status.Abandoned {
		t.Abandoned++
	}
	r := t.Running[a.status.ActionName]
	r.Count++
	r.Oldest = max(r.Oldest, now.Sub(a.status.StartedAt))
	t.Running[a.status.ActionName] = r
}
