package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// Config configures a Host.
type Config struct {
	Name       string // of the process, the Host of each control.Service
	Components []Component
	Hooks      supervisor.Hooks // are called as package supervisor calls them
	Changed    func(id string)  // is called when the view of a service may have changed; nil: not called
	Log        *slog.Logger     // nil: discarded
}

const (
	resyncInterval = 5 * time.Second // between observations of a component that nothing wakes
	maxHistory     = 100             // transitions that are kept per service
)

// A Host runs the components of a process, each as a service. It is a control.Host. Its
// methods may be called from any goroutine.
type Host struct {
	name       string
	supervisor *supervisor.Supervisor
	components []*component // by name
}

var _ control.Host = (*Host)(nil)

// A component is a Component of a Host, with its service and the history of that.
type component struct {
	*loop
	handle *supervisor.Handle[desired, observed, desired]

	mu      sync.Mutex
	desired desired           // the newest desired state
	moves   []pawl.Transition // the last maxHistory, oldest first
	count   int64             // of all transitions
}

// New returns a host. Its components start in Run.
func New(c Config) (*Host, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{name: c.Name}
	hooks := c.Hooks
	hooks.Transition = func(id supervisor.Identity, t supervisor.Transition) {
		if comp, err := h.find(id.ID); err == nil {
			comp.record(t)
		}
		if c.Hooks.Transition != nil {
			c.Hooks.Transition(id, t)
		}
		if c.Changed != nil {
			c.Changed(id.ID)
		}
	}
	var err error
	h.supervisor, err = supervisor.New(supervisor.Config{Shards: 1, Hooks: hooks, Log: slog.New(logFilter{c.Log.Handler()}),
		Defaults: supervisor.Options{Collector: supervisor.Collector{Interval: resyncInterval, StaleAfter: time.Minute}}})
	if err != nil {
		return nil, err
	}
	for _, r := range c.Components {
		h.components = append(h.components, &component{loop: &loop{Component: r, log: c.Log, wake: func() { _ = h.supervisor.Wake(r.Name) }}})
	}
	slices.SortFunc(h.components, func(a, b *component) int { return strings.Compare(a.Name, b.Name) })
	for _, comp := range h.components {
		comp.record(supervisor.Transition{ToPhase: lifecycle.Service.Initial, To: waiting{}.String(), Event: lifecycle.Service.Create, At: time.Now()})
		comp.handle, err = supervisor.Add(context.Background(), h.supervisor, supervisor.Identity{ID: comp.Name, Type: comp.Name}, worker{comp.loop}, desired{}, supervisor.Options{})
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// A logFilter lowers the supervisor's Info records to Debug, since how the components come
// up is of little interest.
type logFilter struct{ slog.Handler }

func (f logFilter) Enabled(ctx context.Context, l slog.Level) bool {
	return f.Handler.Enabled(ctx, demote(l))
}

func (f logFilter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demote(r.Level)
	return f.Handler.Handle(ctx, r)
}

func (f logFilter) WithAttrs(as []slog.Attr) slog.Handler { return logFilter{f.Handler.WithAttrs(as)} }
func (f logFilter) WithGroup(name string) slog.Handler    { return logFilter{f.Handler.WithGroup(name)} }

func demote(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}

// Run runs the components until ctx ends, then stops them. The report names those that did
// not end.
func (h *Host) Run(ctx context.Context) (supervisor.Report, error) { return h.supervisor.Run(ctx) }

// Stats returns the numbers of the supervisor, for metrics.
func (h *Host) Stats() supervisor.Stats { return h.supervisor.Stats() }

// Unready says why the process is not ready: each component that is not running, or is
// stuck, unless it is optional. An empty result means that it is ready.
func (h *Host) Unready() []string {
	var reasons []string
	for _, comp := range h.components {
		if comp.Optional {
			continue
		}
		s, err := h.supervisor.Status(comp.Name)
		if err != nil {
			reasons = append(reasons, comp.Name+" is not supervised any more")
			continue
		}
		if s.State != (running{}).String() && s.State != (failing{}).String() {
			reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", comp.Name, s.State, s.Reason), ": "))
		}
	}
	return reasons
}

// A Count is the progress of one component, for metrics.
type Count struct {
	Name   string
	Alive  bool
	Starts int
	Progress
}

// Counts returns the progress of each component, by name.
func (h *Host) Counts() []Count {
	var all []Count
	for _, comp := range h.components {
		s := comp.observe()
		all = append(all, Count{comp.Name, s.Alive, s.Starts, s.Progress})
	}
	return all
}

func (h *Host) find(id string) (*component, error) {
	var names []string
	for _, comp := range h.components {
		if comp.Name == id {
			return comp, nil
		}
		names = append(names, comp.Name)
	}
	return nil, pawl.Errorf(pawl.NotFound, "there is no service %.250q: want one of %s", id, strings.Join(names, ", "))
}

// Services implements control.Host.
func (h *Host) Services() []control.Service {
	var all []control.Service
	for _, comp := range h.components {
		if s, err := h.Service(comp.Name); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// Service implements control.Host.
func (h *Host) Service(id string) (control.Service, error) {
	comp, err := h.find(id)
	if err != nil {
		return control.Service{}, err
	}
	st, err := h.supervisor.Status(id)
	if err != nil {
		return control.Service{}, err
	}
	o := comp.observe()
	comp.mu.Lock()
	by := comp.desired.By
	comp.mu.Unlock()
	s := control.Service{
		ID: id, Host: h.name, State: st.State, Phase: st.Phase, Since: st.Since, Reason: st.Reason, Why: []string{},
		Wanted: "running", By: by, PID: os.Getpid(), StartedAt: o.StartedAt, Starts: o.Starts, Exit: o.Exit,
		Status: comp.Doc + o.Progress.text(time.Now()), Escalated: st.Escalated,
	}
	if st.Shutdown {
		s.Wanted = "stopped"
	}
	if st.Action.InProgress {
		s.Action = st.Action.ActionName
	}
	if st.Phase != lifecycle.ServiceRunning {
		s.Why = slices.DeleteFunc([]string{st.Reason, st.Escalation, waitsFor(st.Waits)}, func(s string) bool { return s == "" })
		s.Why = slices.Compact(s.Why)
	}
	return s, nil
}

func waitsFor(what string) string {
	if what == "" {
		return ""
	}
	return "waits for " + what
}

// text describes the progress for control.Service.Status.
func (p Progress) text(now time.Time) string {
	if p.Rounds == 0 {
		return ""
	}
	text := fmt.Sprintf("; rounds: %d, the last %s ago", p.Rounds, now.Sub(p.At).Round(time.Second))
	if p.Failures > 0 {
		text += fmt.Sprintf("; failures: %d", p.Failures)
	}
	return text
}

// record appends a transition to the history.
func (comp *component) record(t supervisor.Transition) {
	state, _ := json.Marshal(map[string]string{"state": t.To}) // a string always has JSON
	m := pawl.Transition{Entity: comp.Name, To: t.ToPhase, Event: t.Event, Reason: t.Reason, Actor: "supervisor", Metadata: state,
		At: pawl.Timestamp(pawl.Micros(t.At))}
	if t.FromPhase != "" {
		took := pawl.Duration(t.After)
		m.From, m.Took = &t.FromPhase, &took
	}
	comp.mu.Lock()
	defer comp.mu.Unlock()
	if t.Actor != "" {
		m.Actor = t.Actor
	}
	comp.count++
	m.Sequence = comp.count
	if comp.moves = append(comp.moves, m); len(comp.moves) > maxHistory {
		comp.moves = slices.Clone(comp.moves[len(comp.moves)-maxHistory:])
	}
}

// History implements control.Host: the last hundred transitions.
func (h *Host) History(_ context.Context, id string) ([]pawl.Transition, error) {
	comp, err := h.find(id)
	if err != nil {
		return nil, err
	}
	comp.mu.Lock()
	defer comp.mu.Unlock()
	return slices.Clone(comp.moves), nil
}

// takes returns a component that takes an order, or the error of one that does not.
func (h *Host) takes(id string, v control.Verb) (*component, error) {
	comp, err := h.find(id)
	if err != nil {
		return nil, err
	}
	switch v {
	case control.Start, control.Restart:
		return comp, nil
	case control.Stop:
		return nil, &pawl.Error{Kind: pawl.Refused, Message: "service " + id + " is a part of " + h.name + ", which cannot be stopped by itself",
			Hint: fmt.Sprintf("stop the whole process, pid %d, or restart the part", os.Getpid())}
	}
	return nil, pawl.Errorf(pawl.Invalid, "order %.50q: want start or restart", string(v))
}

// Check implements control.Host.
func (h *Host) Check(id string, v control.Verb) error {
	comp, err := h.takes(id, v)
	if err != nil || v == control.Restart {
		return err
	}
	if s := comp.handle.Snapshot().State; s == (running{}).String() || s == (failing{}).String() {
		return pawl.Errorf(pawl.Conflict, "service %s runs already", id)
	}
	return nil
}

// Order implements control.Host. Starting a component that runs changes nothing, starting
// one in its backoff ends the backoff, and a stop is refused.
func (h *Host) Order(_ context.Context, id string, o control.Order) error {
	comp, err := h.takes(id, o.Verb)
	if err != nil {
		return err
	}
	comp.skipBackoff()
	if o.Verb == control.Start {
		comp.handle.Wake()
		return nil
	}
	comp.mu.Lock()
	defer comp.mu.Unlock()
	comp.desired = desired{comp.desired.Generation + 1, o.Actor, o.Reason}
	return comp.handle.SetSpec(comp.desired)
}

// Logs implements control.Host. It always refuses.
func (h *Host) Logs(_ context.Context, id string, _ control.LogQuery, _ io.Writer) error {
	if _, err := h.find(id); err != nil {
		return err
	}
	return &pawl.Error{Kind: pawl.Refused, Message: "service " + id + " is a part of " + h.name + " and has no output of its own",
		Hint: "see the log of that process, on its stderr"}
}

// Reload implements control.Host. It always refuses.
func (h *Host) Reload(context.Context, pawl.Change) ([]control.Difference, error) {
	return nil, pawl.Errorf(pawl.Refused, "%s has no service file to read again", h.name)
}
