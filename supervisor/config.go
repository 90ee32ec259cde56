package supervisor

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"
)

// Limits that are not configurable.
const (
	MaxID     = 200 // bytes of a service's id
	MaxReason = 500 // bytes of a reason or an error; the rest is cut off

	maxTransitions = 8  // changes of state in a row on one observation; the next waits for another observation
	maxLost        = 5  // collections that ignore their context; no other begins until one returns
	maxPast        = 8  // intents of a service that are remembered besides the last one
	maxRepeats     = 8  // successful attempts in a row at one intent, each within Collector.Interval of the one before
	maxTurns       = 64 // turns of a shard before it reads its inbox
	timeStep       = 10 * time.Millisecond
)

// Config configures a Supervisor. The zero value is valid.
type Config struct {
	// Shards is the number of loops that the services are spread over. 0: GOMAXPROCS.
	Shards int

	// Defaults are the options of services that set none; its own zero fields have
	// the defaults that Options documents.
	Defaults Options

	// Journal records states, actions and outcomes, so that a restart continues from them.
	// Nil: nothing is recorded.
	Journal Journal

	// Actor is the actor of the journal's entries that have no other. Empty: "supervisor".
	Actor string

	// Executor runs the attempts of actions. Nil: in this process.
	Executor ActionExecutor

	// Hooks are called when something happens.
	Hooks Hooks

	// Log has a line per transition, action and failure. Nil: slog.Default().
	Log *slog.Logger

	// Random returns numbers in [0, 1) for jitter. It may be called from any goroutine. If
	// it panics or returns anything else, 0.5 is used. Nil: math/rand.
	Random func() float64
}

// Options are those of one service. Zero fields are those of Config.Defaults.
type Options struct {
	// DependsOn are ids of services that this one is started after and stopped before. A
	// decision that starts it, from a state that stands for stopped or failed, waits until
	// all of them run, if only degraded; one that is not there yet may be added later. A
	// dependency that goes down later stops nothing, and Next sees it in Facts.Dependencies.
	DependsOn []string

	// StartsByItself leaves it to Next when to start the service: DependsOn is then only
	// the order of stops, and what Facts.Dependencies shows. So a service can wait for a
	// dependency that has completed, for example, and no longer runs.
	StartsByItself bool

	Collector   Collector     // how it is observed
	Action      ActionLimits  // limits of its actions
	StopTimeout time.Duration // until a running action is cancelled, when the service is being stopped or restarted; 0: 5 s

	// Restarts is how often SignalNeedsRestart is followed within RestartWindow; then it
	// escalates. Restarts after the first wait for Action.Backoff. 0: 5 in 5 minutes; -1:
	// never.
	Restarts      int
	RestartWindow time.Duration
}

// A Collector says how a service is observed (S9).
type Collector struct {
	Interval     time.Duration // between the beginnings of collections, give or take a tenth; 0: 1 s
	Timeout      time.Duration // of one; 0: 2.2 s
	StaleAfter   time.Duration // the age of an observation from which Next is not called, unless the service is being stopped; 0: 10 s
	RestartAfter time.Duration // the age at which a collection that ignores its context is given up; 0: 20 s
	Backoff      Backoff       // after failures and between restarts; 0: 1 s to 60 s
}

func (c Config) withDefaults() (Config, error) {
	if c.Shards < 0 {
		return c, fmt.Errorf("%w: Shards %d: want 0 or more", ErrInvalid, c.Shards)
	}
	fill(&c.Shards, runtime.GOMAXPROCS(0))
	fill(&c.Actor, "supervisor")
	if c.Executor == nil {
		c.Executor = local{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if len(c.Defaults.DependsOn) > 0 {
		return c, fmt.Errorf("%w: Defaults.DependsOn: want none", ErrInvalid)
	}
	c.Defaults = c.Defaults.withDefaults(builtIn)
	return c, c.Defaults.validate()
}

var builtIn = Options{
	Collector: Collector{
		Interval:     time.Second,
		Timeout:      2200 * time.Millisecond,
		StaleAfter:   10 * time.Second,
		RestartAfter: 20 * time.Second,
		Backoff:      Backoff{Base: time.Second, Max: time.Minute},
	},
	Action: ActionLimits{
		Timeout:  5 * time.Minute,
		Grace:    5 * time.Second,
		Attempts: 4,
		Backoff:  Backoff{Base: time.Second, Max: time.Minute},
	},
	StopTimeout:   5 * time.Second,
	Restarts:      5,
	RestartWindow: 5 * time.Minute,
}

// withDefaults returns o with its zero fields set to those of d.
func (o Options) withDefaults(d Options) Options {
	fill(&o.Collector.Interval, d.Collector.Interval)
	fill(&o.Collector.Timeout, d.Collector.Timeout)
	fill(&o.Collector.StaleAfter, d.Collector.StaleAfter)
	fill(&o.Collector.RestartAfter, d.Collector.RestartAfter)
	fill(&o.Collector.Backoff, d.Collector.Backoff)
	o.Action = o.Action.withDefaults(d.Action)
	o.StartsByItself = o.StartsByItself || d.StartsByItself
	fill(&o.StopTimeout, d.StopTimeout)
	fill(&o.Restarts, d.Restarts)
	fill(&o.RestartWindow, d.RestartWindow)
	return o
}

// validate returns an error for the first invalid field. Defaults are filled in.
func (o Options) validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"Collector.Interval", o.Collector.Interval},
		{"Collector.Timeout", o.Collector.Timeout},
		{"Collector.StaleAfter", o.Collector.StaleAfter},
		{"Collector.RestartAfter", o.Collector.RestartAfter},
		{"Collector.Backoff.Base", o.Collector.Backoff.Base},
		{"Collector.Backoff.Max", o.Collector.Backoff.Max},
		{"StopTimeout", o.StopTimeout},
		{"RestartWindow", o.RestartWindow},
	} {
		if d.value < 0 {
			return fmt.Errorf("%w: %s %s: want more than 0", ErrInvalid, d.field, d.value)
		}
	}
	if o.Collector.StaleAfter <= o.Collector.Interval+o.Collector.Interval/10 {
		return fmt.Errorf("%w: Collector.StaleAfter %s: want more than Interval, which is %s", ErrInvalid, o.Collector.StaleAfter, o.Collector.Interval)
	}
	if err := o.Action.validate("Action."); err != nil {
		return err
	}
	return atLeast(-1, map[string]int{"Restarts": o.Restarts})
}

func atLeast(least int, values map[string]int) error {
	for field, v := range values {
		if v < least {
			return fmt.Errorf("%w: %s %d: want %d or more", ErrInvalid, field, v, least)
		}
	}
	return nil
}

// validate returns an error for the first invalid field.
func (id Identity) validate() error {
	if !validID(id.ID) {
		return fmt.Errorf("%w: id %.250q: want 1 to %d letters, digits and . _ - /", ErrInvalid, id.ID, MaxID)
	}
	if id.Parent != "" && !validID(id.Parent) {
		return fmt.Errorf("%w: parent %.250q of service %s: want an id", ErrInvalid, id.Parent, id.ID)
	}
	return nil
}

func validID(s string) bool {
	return s != "" && len(s) <= MaxID && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/", r))
	}) < 0
}
