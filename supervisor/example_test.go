package supervisor_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// A pump has a motor, which is on or off.
type pump struct{ on atomic.Bool }

type (
	motor         struct{ On bool } // observed
	goal          struct{ On bool } // desired
	pumpState     = supervisor.State[motor, goal]
	pumpDecision  = supervisor.Decision[motor, goal]
	pumpSnapshot  = supervisor.Snapshot[motor, goal]
	idle          struct{ *pump }
	starting      struct{ *pump }
	pumping       struct{ *pump }
	stoppingState struct{ *pump }
)

func (p *pump) CollectObservedState(context.Context, goal) (motor, error) {
	return motor{p.on.Load()}, nil
}
func (p *pump) DeriveDesiredState(spec string) (goal, error) { return goal{On: spec == "on"}, nil }
func (p *pump) GetInitialState() pumpState                   { return idle{p} }
func (p *pump) States() []pumpState {
	return []pumpState{idle{p}, starting{p}, pumping{p}, stoppingState{p}}
}

func (idle) String() string       { return "idle" }
func (idle) Reason() string       { return "" }
func (idle) Phase() machine.State { return lifecycle.ServiceStopped }

func (s idle) Next(n pumpSnapshot) pumpDecision {
	if n.Desired.On && !n.Shutdown {
		return pumpDecision{State: starting{s.pump}, Action: turn{s.pump, true}}
	}
	return pumpDecision{}
}

func (starting) String() string       { return "starting" }
func (starting) Reason() string       { return "the motor has to come up" }
func (starting) Phase() machine.State { return lifecycle.ServiceTryingToStart }

func (s starting) Next(n pumpSnapshot) pumpDecision {
	switch {
	case n.Shutdown || !n.Desired.On:
		return pumpDecision{State: stoppingState{s.pump}}
	case n.Observed.On:
		return pumpDecision{State: pumping{s.pump}}
	}
	return pumpDecision{Action: turn{s.pump, true}}
}

func (pumping) String() string       { return "pumping" }
func (pumping) Reason() string       { return "" }
func (pumping) Phase() machine.State { return lifecycle.ServiceRunning }

func (s pumping) Next(n pumpSnapshot) pumpDecision {
	switch {
	case n.Shutdown || !n.Desired.On:
		return pumpDecision{State: stoppingState{s.pump}}
	case !n.Observed.On:
		return pumpDecision{State: starting{s.pump}, Reason: "the motor went off"}
	}
	return pumpDecision{}
}

func (stoppingState) String() string       { return "stopping" }
func (stoppingState) Reason() string       { return "" }
func (stoppingState) Phase() machine.State { return lifecycle.ServiceTryingToStop }

func (s stoppingState) Next(n pumpSnapshot) pumpDecision {
	if n.Seen.Fresh && !n.Observed.On {
		return pumpDecision{State: idle{s.pump}}
	}
	return pumpDecision{Action: turn{s.pump, false}}
}

// A turn turns the motor on or off.
type turn struct {
	*pump
	on bool
}

func (t turn) Name() string { return map[bool]string{true: "turn on", false: "turn off"}[t.on] }

func (t turn) Execute(_ context.Context, run supervisor.Run) error {
	t.pump.on.Store(t.on)
	return nil
}

// silent is a log that says nothing.
var silent = slog.New(slog.DiscardHandler)

// A pump is started, loses its motor, is started again, and is stopped in the end.
func Example() {
	moves := make(chan string, 10)
	s, err := supervisor.New(supervisor.Config{Log: silent, Hooks: supervisor.Hooks{
		Transition: func(id supervisor.Identity, t supervisor.Transition) {
			moves <- fmt.Sprintf("%s: %s -> %s", id.ID, t.From, t.To)
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan supervisor.Report)
	go func() {
		report, _ := s.Run(ctx)
		done <- report
	}()

	p := &pump{}
	h, err := supervisor.Add(ctx, s, supervisor.Identity{ID: "well"}, p, "on", supervisor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	runs := func(n pumpSnapshot) bool { return n.Phase == lifecycle.ServiceRunning && n.Observed.On }
	_ = h.WaitFor(ctx, runs)
	p.on.Store(false)
	h.Wake() // or its next collection finds it
	_ = h.WaitFor(ctx, func(n pumpSnapshot) bool { return n.Action.Fence == 2 && runs(n) })
	stop()
	fmt.Println("left behind:", len((<-done).Left))
	close(moves)
	for m := range moves {
		fmt.Println(m)
	}
	// Output:
	// left behind: 0
	// well: idle -> starting
	// well: starting -> pumping
	// well: pumping -> starting
	// well: starting -> pumping
	// well: pumping -> stopping
	// well: stopping -> idle
}

// Another specification is seen at once, and WaitFor waits for what it leads to.
func ExampleHandle_SetSpec() {
	s, _ := supervisor.New(supervisor.Config{Log: silent})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan struct{})
	go func() {
		_, _ = s.Run(ctx)
		close(done)
	}()
	h, err := supervisor.Add(ctx, s, supervisor.Identity{ID: "well"}, &pump{}, "off", supervisor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = h.SetSpec("on")
	_ = h.WaitFor(ctx, func(n pumpSnapshot) bool { return n.Phase == lifecycle.ServiceRunning })
	st, _ := s.Status("well")
	fmt.Println(st.State, st.Generation, st.Action.ActionName, st.Action.Succeeded)
	stop()
	<-done
	// Output:
	// pumping 2 turn on true
}

// The journal has the life of a service, in the terms of the table.
func ExampleJournal() {
	j := &supervisor.MemoryJournal{}
	s, _ := supervisor.New(supervisor.Config{Log: silent, Journal: j})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan struct{})
	go func() {
		_, _ = s.Run(ctx)
		close(done)
	}()
	h, err := supervisor.Add(ctx, s, supervisor.Identity{ID: "well"}, &pump{}, "on", supervisor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = h.WaitFor(ctx, func(n pumpSnapshot) bool { return n.Phase == lifecycle.ServiceRunning })
	stop()
	<-done
	for _, e := range trailOf(j, supervisor.Entity("well", 1)) {
		fmt.Println(e.Sequence, e.Event, e.To)
	}
	// Output:
	// 1 add stopped
	// 2 start trying_to_start
	// 3 settle trying_to_start
	// 4 started running
	// 5 stop trying_to_stop
	// 6 act trying_to_stop
	// 7 settle trying_to_stop
	// 8 stopped stopped
}
