package programs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// view answers how a service is, unless it has left.
func (k *Keeper) view(w *ward) (control.Service, bool) {
	st, n, err := k.both(w)
	if err != nil {
		return control.Service{}, false
	}
	s := control.Service{
		ID: w.id, Host: k.config.Name, State: n.State, Phase: n.Phase, Since: n.Since, Reason: st.Reason,
		Wanted: "stopped", By: n.Desired.By, Escalated: st.Escalated, Log: k.logPath(n.Desired.Program),
		Unrecorded: k.owing.unrecorded(w.id),
	}
	if n.Desired.Run {
		s.Wanted = "running"
	}
	for _, need := range n.Desired.Program.Needs {
		s.Needs = append(s.Needs, need.ID+" "+string(need.Condition))
	}
	if n.Action.InProgress {
		s.Action = n.Action.ActionName
	}
	w.describe(&s)
	s.Why = k.why(w, n, st)
	return s, true
}

// both answers the two sides of a service, of the same state: it may move in between.
func (k *Keeper) both(w *ward) (st supervisor.Status, n snapshot, err error) {
	for range maxLooks {
		n = w.handle.Snapshot()
		if st, err = k.sup.Status(w.id); err != nil || st.State == n.State && st.Since.Equal(n.Since) {
			break
		}
	}
	return st, n, err
}

// maxLooks bounds the looks at a service that moves all the time.
const maxLooks = 10

// up are the states of a program that runs.
var up = []string{starting, running, degraded}

// describe adds what is known of the program itself.
func (w *ward) describe(s *control.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Starts = w.starts
	r := w.run
	if r == nil {
		return
	}
	s.Status = r.status
	if r.proc != nil {
		s.StartedAt = r.startedAt
	}
	if r.exit != nil {
		s.Exit = r.exit.Text
		if slices.Contains(up, s.State) { // what follows is not decided yet
			s.State, s.Phase = stopping, phases[stopping]
		}
		return
	}
	if r.proc != nil {
		s.PID = r.proc.PID()
	}
	for _, p := range []*probe{r.ready, r.alive} {
		if p != nil {
			s.Probes = append(s.Probes, p.Probe)
		}
	}
}

// why answers why a service does not run, or is not ready, in words.
func (k *Keeper) why(w *ward, n snapshot, st supervisor.Status) []string {
	why := []string{}
	add := func(text string) {
		if text != "" && !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	if text := stopsAfter(st); text != "" {
		return []string{text}
	}
	o := w.look()
	switch n.State {
	case running:
		if !o.Up && o.Exit == nil {
			add("the supervisor has just been started, and has not looked yet")
		}
		if o.Exit != nil {
			add(cut("it has ended", o.Exit.String()))
		}
		return why
	case waiting:
		for _, text := range k.unmet(n) {
			add(text)
		}
		if len(why) == 0 {
			add("it is being started")
		}
	case starting:
		add(cut("it is not ready yet", o.Unready))
		if left, limited := remaining(n); limited && left > 0 {
			add(fmt.Sprintf("it is ended if it is not ready in %s", short(left)))
		}
	case backoff:
		add(pausing(n, st.Reason))
	case degraded:
		add(o.Sick)
		add(cut("it is not ready", o.Unready))
	case stopping:
		add(cut("it is being stopped", st.Reason))
		if after := n.Now.Sub(n.Since); o.Up && after >= time.Second {
			add(fmt.Sprintf("pid %d has not ended for %s; it is killed after %s", o.PID, short(after), short(n.Desired.Program.Stop.Grace)))
		}
	default:
		add(k.atRest(w.id, n, st.Reason))
	}
	if n.State != failed {
		add(st.Escalation)
	}
	if strings.HasPrefix(st.Waits, "the journal, ") {
		add("it waits for " + st.Waits)
	}
	return why
}

// stopsAfter says for which of its dependants the stop of a service waits, if it does.
func stopsAfter(st supervisor.Status) string {
	if ids := st.StopsAfter; len(ids) == 0 || st.Phase == lifecycle.ServiceStopped || st.Phase == lifecycle.ServiceFailed {
		return ""
	} else if more := len(ids) - maxNamed; more > 0 {
		return fmt.Sprintf("stopping, waits for %s and %d more", strings.Join(ids[:maxNamed], ", "), more)
	}
	return "stopping, waits for " + strings.Join(st.StopsAfter, ", ")
}

// maxNamed bounds the services that a reason names.
const maxNamed = 5

// atRest says why a service rests, and what would start it.
func (k *Keeper) atRest(id string, n snapshot, reason string) string {
	if reason == "" {
		reason = "it was not started"
		if !n.Desired.Program.Autostart {
			reason = "autostart is false"
		}
	}
	switch {
	case n.Shutdown:
		return reason
	case n.State == failed:
		return reason + "; start it with: pawl service start " + id
	case n.State == completed:
		return cut("it has completed", reason)
	case n.Desired.Run:
		return "it is about to be started"
	}
	return reason + "; start it with: pawl service start " + id
}

// pausing says how long a backoff still takes.
func pausing(n snapshot, reason string) string {
	if n.Observed.Exit == nil {
		return reason
	}
	v := judge(n.Desired.Program.Restart, n.Observed)
	return v.reason(n.Now)
}

// unmet says which needs are not met, and what those wait for in their turn.
func (k *Keeper) unmet(n snapshot) []string {
	return unmet(n.Desired.Program.Needs, k.lived(n.Dependencies), func(id string) string {
		d := k.ward(id)
		if d == nil {
			return ""
		}
		st, _ := k.sup.Status(id) // one that has left has no reason
		switch o := d.look(); {
		case o.Up:
			return o.Unready
		case st.State == waiting:
			return "" // it says so itself
		}
		return st.Reason
	})
}

// cut joins a text and what explains it, if anything does.
func cut(text, more string) string {
	if more == "" {
		return text
	}
	return text + ": " + more
}

// short writes a duration for people: 4s, 5m, 1.5s, 300ms.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
