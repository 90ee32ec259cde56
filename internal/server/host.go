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

// Config is what a Host is made of.
type Config struct {
	Name     string // of the process, in control.Service
	Routines []Routine
	Hooks    supervisor.Hooks // are told what happens
	Changed  func(id string)  // is called when a service may look different; nil: nobody is
	Log      *slog.Logger     // nil: discarded
}

const (
	resync  = 5 * time.Second // between observations of a loop that does not end
	history = 100             // moves of a service that are kept
)

// A Host keeps routines running. It is a control.Host.
type Host struct {
	name       string
	supervisor *supervisor.Supervisor
	parts      []*part // by name
}

var _ control.Host = (*Host)(nil)

// A part is a routine in the hands of its host.
type part struct {
	*loop
	handle *supervisor.Handle[wish, sight, wish]

	mu    sync.Mutex
	order wish              // the newest
	moves []pawl.Transition // the last ones, oldest first
	count int64             // of all
}

// New answers a host whose routines begin with Run.
func New(c Config) (*Host, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{name: c.Name}
	hooks := c.Hooks
	hooks.Transition = func(id supervisor.Identity, t supervisor.Transition) {
		if p, err := h.find(id.ID); err == nil {
			p.note(t)
		}
		if c.Hooks.Transition != nil {
			c.Hooks.Transition(id, t)
		}
		if c.Changed != nil {
			c.Changed(id.ID)
		}
	}
	var err error
	h.supervisor, err = supervisor.New(supervisor.Config{Shards: 1, Hooks: hooks, Log: slog.New(quiet{c.Log.Handler()}),
		Defaults: supervisor.Options{Collector: supervisor.Collector{Interval: resync, StaleAfter: time.Minute}}})
	if err != nil {
		return nil, err
	}
	for _, r := range c.Routines {
		h.parts = append(h.parts, &part{loop: &loop{Routine: r, log: c.Log, wake: func() { _ = h.supervisor.Wake(r.Name) }}})
	}
	slices.SortFunc(h.parts, func(a, b *part) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range h.parts {
		p.note(supervisor.Transition{ToPhase: lifecycle.Service.Initial, To: waiting{}.String(), Event: lifecycle.Service.Create, At: time.Now()})
		p.handle, err = supervisor.Add(context.Background(), h.supervisor, supervisor.Identity{ID: p.Name, Type: p.Name}, keeper{p.loop}, wish{}, supervisor.Options{})
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// quiet is a log that is told how the parts of a process come up only by those who ask
// for details.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return q.Handler.Enabled(ctx, detail(l))
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = detail(r.Level)
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(as []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(as)} }
func (q quiet) WithGroup(name string) slog.Handler    { return quiet{q.Handler.WithGroup(name)} }

func detail(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}

// Run keeps the routines running until ctx ends, then ends them, and answers those
// that did not.
func (h *Host) Run(ctx context.Context) (supervisor.Report, error) { return h.supervisor.Run(ctx) }

// Stats are those of the supervisor, for metrics.
func (h *Host) Stats() supervisor.Stats { return h.supervisor.Stats() }

// Unready says what keeps the process from doing its work: each routine that is not
// running, or is stuck.
func (h *Host) Unready() []string {
	var reasons []string
	for _, p := range h.parts {
		if p.Aside {
			continue
		}
		s, err := h.supervisor.Status(p.Name)
		if err != nil {
			reasons = append(reasons, p.Name+" is not supervised any more")
			continue
		}
		if s.State != (running{}).String() && s.State != (failing{}).String() {
			reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", p.Name, s.State, s.Reason), ": "))
		}
	}
	return reasons
}

// A Count is the progress of one routine, for metrics.
type Count struct {
	Name   string
	Alive  bool
	Starts int
	Progress
}

// Counts answers the progress of each routine, by name.
func (h *Host) Counts() []Count {
	var all []Count
	for _, p := range h.parts {
		s := p.look()
		all = append(all, Count{p.Name, s.Alive, s.Starts, s.Progress})
	}
	return all
}

func (h *Host) find(id string) (*part, error) {
	var names []string
	for _, p := range h.parts {
		if p.Name == id {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, pawl.Errorf(pawl.NotFound, "there is no service %.250q: want one of %s", id, strings.Join(names, ", "))
}

// Services implements control.Host.
func (h *Host) Services() []control.Service {
	var all []control.Service
	for _, p := range h.parts {
		if s, err := h.Service(p.Name); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// Service implements control.Host.
func (h *Host) Service(id string) (control.Service, error) {
	p, err := h.find(id)
	if err != nil {
		return control.Service{}, err
	}
	st, err := h.supervisor.Status(id)
	if err != nil {
		return control.Service{}, err
	}
	o := p.look()
	p.mu.Lock()
	by := p.order.By
	p.mu.Unlock()
	s := control.Service{
		ID: id, Host: h.name, State: st.State, Phase: st.Phase, Since: st.Since, Reason: st.Reason, Why: []string{},
		Wanted: "running", By: by, PID: os.Getpid(), StartedAt: o.Begun, Starts: o.Starts, Exit: o.Exit,
		Status: p.Doc + o.Progress.text(time.Now()), Escalated: st.Escalated,
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

// text says what a routine has done, after what it does.
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

// note keeps a move.
func (p *part) note(t supervisor.Transition) {
	state, _ := json.Marshal(map[string]string{"state": t.To}) // a string always has JSON
	m := pawl.Transition{Entity: p.Name, To: t.ToPhase, Event: t.Event, Reason: t.Reason, Actor: "supervisor", Metadata: state,
		At: pawl.Timestamp(pawl.Micros(t.At))}
	if t.FromPhase != "" {
		took := pawl.Duration(t.After)
		m.From, m.Took = &t.FromPhase, &took
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.Actor != "" {
		m.Actor = t.Actor
	}
	p.count++
	m.Sequence = p.count
	if p.moves = append(p.moves, m); len(p.moves) > history {
		p.moves = slices.Clone(p.moves[len(p.moves)-history:])
	}
}

// History implements control.Host: the last hundred moves.
func (h *Host) History(_ context.Context, id string) ([]pawl.Transition, error) {
	p, err := h.find(id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.moves), nil
}

// Order implements control.Host. A start of what runs asks for nothing, one of what
// waits for its next run begins it now, and a stop is refused.
func (h *Host) Order(_ context.Context, id string, o control.Order) error {
	p, err := h.find(id)
	if err != nil {
		return err
	}
	switch o.Verb {
	case control.Start, control.Restart:
	case control.Stop:
		return &pawl.Error{Kind: pawl.Refused, Message: "service " + id + " is a part of " + h.name + ", which cannot be stopped by itself",
			Hint: fmt.Sprintf("stop the whole process: kill -TERM %d; or begin the part anew: pawl service restart %s", os.Getpid(), id)}
	default:
		return pawl.Errorf(pawl.Invalid, "order %.50q: want start or restart", string(o.Verb))
	}
	p.hasten()
	if o.Verb == control.Start {
		p.handle.Wake()
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = wish{p.order.Order + 1, o.Actor, o.Reason}
	return p.handle.SetSpec(p.order)
}

// Logs implements control.Host: it refuses.
func (h *Host) Logs(_ context.Context, id string, _ control.LogQuery, _ io.Writer) error {
	if _, err := h.find(id); err != nil {
		return err
	}
	return &pawl.Error{Kind: pawl.Refused, Message: "service " + id + " is a part of " + h.name + " and has no output of its own",
		Hint: "see what that process logs to its stderr"}
}

// Reload implements control.Host: it refuses.
func (h *Host) Reload(context.Context, pawl.Change) ([]control.Difference, error) {
	return nil, pawl.Errorf(pawl.Refused, "%s has no file of services to read again", h.name)
}
