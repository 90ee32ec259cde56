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

// view returns the control.Service of a program. It is false if the program was removed.
func (m *Manager) view(prog *program) (control.Service, bool) {
	st, n, err := m.consistentStatus(prog)
	if err != nil {
		return control.Service{}, false
	}
	s := control.Service{
		ID: prog.id, Host: m.config.Name, State: n.State, Phase: n.Phase, Since: n.Since, Reason: st.Reason,
		Wanted: "stopped", By: n.Desired.By, Escalated: st.Escalated, Log: m.logPath(n.Desired.Spec),
		Unrecorded: m.deferred.Unrecorded(prog.id),
	}
	if n.Desired.Run {
		s.Wanted = "running"
	}
	for _, need := range n.Desired.Spec.Needs {
		s.Needs = append(s.Needs, need.ID+" "+string(need.Condition))
	}
	if n.Action.InProgress {
		s.Action = n.Action.ActionName
	}
	prog.describe(&s)
	s.Why, s.Startable = m.why(prog, n, st), startable(n)
	return s, true
}

// consistentStatus returns the status and the snapshot of a service in the same state, if
// it rests for long enough.
func (m *Manager) consistentStatus(prog *program) (st supervisor.Status, n snapshot, err error) {
	for range maxReads {
		n = prog.handle.Snapshot()
		if st, err = m.sup.Status(prog.id); err != nil || st.State == n.State && st.Since.Equal(n.Since) {
			break
		}
	}
	return st, n, err
}

// maxReads bounds the attempts of consistentStatus on a service that changes all the time.
const maxReads = 10

// up are the states in which the process runs.
var up = []string{starting, running, degraded}

// describe adds what is known of the process.
func (prog *program) describe(s *control.Service) {
	prog.mu.Lock()
	defer prog.mu.Unlock()
	s.Starts = prog.starts
	r := prog.run
	if r == nil {
		return
	}
	s.Status = r.status
	if r.proc != nil {
		s.StartedAt = r.startedAt
	}
	if r.exit != nil {
		s.Exit = r.exit.Text
		if slices.Contains(up, s.State) { // the next state is not decided yet
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

// why explains why a service does not run, or is not ready.
func (m *Manager) why(prog *program, n snapshot, st supervisor.Status) []string {
	why := []string{}
	add := func(text string) {
		if text != "" && !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	if text := stopsAfter(st); text != "" {
		return []string{text}
	}
	o := prog.observe()
	switch n.State {
	case running:
		if !o.Up && o.Exit == nil {
			add("the supervisor has just started, and has not observed it yet")
		}
		if o.Exit != nil {
			add(withDetail("it has ended", o.Exit.String()))
		}
		return why
	case waiting:
		for _, text := range m.unmet(n) {
			add(text)
		}
		if len(why) == 0 {
			add("it is being started")
		}
	case starting:
		add(withDetail("it is not ready yet", o.Unready))
		if left, limited := startTimeLeft(n); limited && left > 0 {
			add(fmt.Sprintf("it is ended unless it is ready within %s", short(left)))
		}
	case backoff:
		add(backoffReason(n, st.Reason))
	case degraded:
		add(o.Unhealthy)
		add(withDetail("it is not ready", o.Unready))
	case stopping:
		add(withDetail("it is being stopped", st.Reason))
		if after := n.Now.Sub(n.Since); o.Up && after >= time.Second {
			add(fmt.Sprintf("pid %d has not ended for %s; it is killed after %s", o.PID, short(after), short(n.Desired.Spec.Stop.Grace)))
		}
	default:
		add(whyAtRest(n, st.Reason))
	}
	if n.State != failed {
		add(st.Escalation)
	}
	if strings.HasPrefix(st.Waits, "the journal, ") {
		add("it waits for " + st.Waits)
	}
	return why
}

// stopsAfter names the dependants that a stopping service waits for, or is empty.
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

// startable reports whether a service rests until it is ordered to start.
func startable(n snapshot) bool {
	return !n.Shutdown && (n.State == failed || n.State == stopped && !n.Desired.Run)
}

// whyAtRest explains why a service is stopped, completed or failed.
func whyAtRest(n snapshot, reason string) string {
	if reason == "" {
		reason = "it was not started"
		if !n.Desired.Spec.Autostart {
			reason = "autostart is false"
		}
	}
	switch {
	case n.Shutdown:
		return reason
	case n.State == completed:
		return withDetail("it has completed", reason)
	case n.State != failed && n.Desired.Run:
		return "it is about to be started"
	}
	return reason
}

// backoffReason describes a backoff, with the time that is left.
func backoffReason(n snapshot, reason string) string {
	if n.Observed.Exit == nil {
		return reason
	}
	v := judge(n.Desired.Spec.Restart, n.Observed)
	return v.reason(n.Now)
}

// unmet describes the needs that are not met, and what those services wait for in turn.
func (m *Manager) unmet(n snapshot) []string {
	return unmet(n.Desired.Spec.Needs, m.currentPeers(n.Dependencies), func(id string) string {
		d := m.program(id)
		if d == nil {
			return ""
		}
		st, _ := m.sup.Status(id) // one that was removed has no reason
		switch o := d.observe(); {
		case o.Up:
			return o.Unready
		case st.State == waiting:
			return "" // its own view explains that
		}
		return st.Reason
	})
}

// withDetail joins a text and its explanation, if there is one.
func withDetail(text, more string) string {
	if more == "" {
		return text
	}
	return text + ": " + more
}

// short formats a duration for people: 4s, 5m, 1.5s, 300ms.
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
