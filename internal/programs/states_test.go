package programs

import (
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// (S14) what a state decides where a scenario cannot choose the moment: the program
// has ended before anybody has seen it run, or a stop comes in between.
func TestNext(t *testing.T) {
	t.Parallel()
	now := time.Now()
	once := plain("web")
	once.Restart.Policy = spec.OnFailure
	good := &exit{Text: "exit code 0", At: now, Order: 1}
	bad := &exit{Text: "exit code 1", Code: 1, At: now, Order: 1}
	wanted := wish{Program: once, Run: true, Order: 1}
	tests := []struct {
		name     string
		in       state
		seen     sight
		wish     wish
		shutdown bool
		stale    bool // it was not looked since the last action
		want     string
		action   string
	}{
		{name: "begins", in: state{name: waiting}, wish: wanted, want: "", action: "start"},
		{name: "is being started", in: state{name: waiting}, seen: sight{Begun: true}, wish: wanted},
		{name: "ended well, unseen", in: state{name: waiting}, seen: sight{Attempts: 1, WasReady: true, Exit: good}, wish: wanted, want: running},
		{name: "ended well, unseen and not ready", in: state{name: waiting}, seen: sight{Attempts: 1, Exit: good}, wish: wanted, want: stopping},
		{name: "ended badly, unseen", in: state{name: waiting}, seen: sight{Attempts: 1, Failures: 1, WasReady: true, Exit: bad}, wish: wanted, want: backoff},
		{name: "ended before it waited", in: state{name: waiting, after: 1}, seen: sight{Attempts: 1, Exit: bad}, wish: wanted, action: "start"},
		{name: "ended well", in: state{name: running}, seen: sight{Attempts: 1, Exit: good}, wish: wanted, want: completed},
		{name: "ended well, degraded", in: state{name: degraded}, seen: sight{Attempts: 1, WasReady: true, Exit: good}, wish: wanted, want: stopping},
		{name: "goes on to completed", in: state{name: stopping}, seen: sight{Attempts: 1, Exit: good}, wish: wanted, want: completed},
		{name: "but not when it is to stop", in: state{name: stopping}, seen: sight{Attempts: 1, Exit: good}, wish: wish{Program: once, Order: 1}, want: stopped},
		{name: "nor when it is ordered again", in: state{name: stopping}, seen: sight{Attempts: 1, Exit: good}, wish: wish{Program: once, Run: true, Order: 2, Renew: 2}, want: stopped},
		{name: "not yet seen to have ended", in: state{name: stopping}, seen: sight{Attempts: 1, Exit: good}, wish: wanted, stale: true},
		{name: "the keeper was killed", in: state{name: running}, wish: wanted, want: waiting},
		{name: "the keeper was killed, and it is not wanted", in: state{name: running}, wish: wish{Program: once}, want: stopping},
		{name: "runs what is older than a change", in: state{name: running}, seen: sight{Up: true, Ready: true, Order: 1}, wish: wish{Program: once, Run: true, Order: 2, Renew: 2}, want: stopping, action: "stop"},
		{name: "runs what is not touched by it", in: state{name: running}, seen: sight{Up: true, Ready: true, Order: 1}, wish: wish{Program: once, Run: true, Order: 2}},
		{name: "has failed, and is changed", in: state{name: failed}, seen: sight{Exit: bad}, wish: wish{Program: once, Run: true, Order: 2}, want: waiting},
		{name: "has failed, and the supervisor stops", in: state{name: failed}, seen: sight{Exit: bad}, wish: wish{Program: once, Run: true, Order: 2}, shutdown: true},
		{name: "degraded, and the supervisor stops", in: state{name: degraded}, seen: sight{Up: true, Sick: "sick"}, wish: wanted, shutdown: true, want: stopping, action: "stop"},
		{name: "between two starts, and the supervisor stops", in: state{name: backoff, until: now}, seen: sight{Exit: bad}, wish: wanted, shutdown: true, want: stopping},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n snapshot
			n.Now, n.Observed, n.Desired, n.Shutdown, n.Seen.Fresh = now, tt.seen, tt.wish, tt.shutdown, !tt.stale
			tt.in.ward = &ward{keeper: &Keeper{}}
			d := tt.in.Next(n)
			got, action := "", ""
			if d.State != nil {
				got = d.State.String()
			}
			if d.Action != nil {
				action = d.Action.Name()
			}
			if got != tt.want || action != tt.action {
				t.Errorf("%s with %s: want %s with %s; reason %q", got, action, tt.want, tt.action, d.Reason)
			}
		})
	}
}

// (S15) each state stands for one of the table's.
func TestPhases(t *testing.T) {
	t.Parallel()
	for _, s := range (&ward{}).States() {
		if !lifecycle.Service.Has(s.Phase()) {
			t.Errorf("%s stands for %q", s, s.Phase())
		}
	}
}

// (S14) a need is met by these states, and by no others.
func TestUnmet(t *testing.T) {
	t.Parallel()
	got := map[spec.Condition][]string{}
	for _, c := range []spec.Condition{spec.Started, spec.Ready, spec.Completed} {
		for _, s := range []string{stopped, waiting, starting, backoff, running, degraded, stopping, completed, failed} {
			peers := []supervisor.Peer{{ID: "db", State: s, Phase: phases[s]}}
			if len(unmet([]spec.Need{{ID: "db", Condition: c}}, peers, nothing)) == 0 {
				got[c] = append(got[c], s)
			}
		}
	}
	want := map[spec.Condition][]string{
		spec.Started:   {starting, running, degraded, completed},
		spec.Ready:     {running, completed},
		spec.Completed: {completed},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("met (-want +got):\n%s", diff)
	}
	lone := unmet([]spec.Need{{ID: "db", Condition: spec.Ready}}, []supervisor.Peer{{ID: "db"}}, nothing)
	if diff := gocmp.Diff([]string{"needs db ready: there is no service db"}, lone); diff != "" {
		t.Errorf("none (-want +got):\n%s", diff)
	}
}

// (S14) the delay doubles up to its longest; with jitter it is anything below that.
func TestDelay(t *testing.T) {
	t.Parallel()
	r := spec.Restart{Base: time.Second, Cap: 10 * time.Second}
	for failures, want := range []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second} {
		if got := delay(r, failures, 0.9); got != want {
			t.Errorf("after %d: %s, want %s", failures, got, want)
		}
	}
	r.Jitter = true
	for draw, want := range map[float64]time.Duration{0: 10 * time.Second, 0.25: 7500 * time.Millisecond, 0.5: 5 * time.Second} {
		if got := delay(r, 1000, draw); got != want {
			t.Errorf("draw %v: %s, want %s", draw, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 40 * time.Millisecond: "40ms", 1490 * time.Millisecond: "1.5s", 4 * time.Second: "4s",
		61 * time.Second: "1m1s", 5 * time.Minute: "5m", 2 * time.Hour: "2h", 90 * time.Minute: "1h30m",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %s, want %s", d, got, want)
		}
	}
}

// (S14) A program ends by itself at the very moment of an order to start it again: in
// whatever state that is seen, and whatever the policy makes of such an end, it is started.
func TestOrderAtTheMomentOfTheEnd(t *testing.T) {
	for name := range phases {
		for _, code := range []int{0, 1} {
			p := plain("a")
			p.Restart.Policy = spec.Never
			n := snapshot{
				Observed: sight{Attempts: 1, Order: 1, WasReady: true, Exit: &exit{Code: code, At: time.Now(), Order: 2}},
				Desired:  wish{Program: p, Run: true, Order: 2, Renew: 2},
			}
			n.Now, n.Seen = time.Now(), supervisor.Observation{Sequence: 1, Fresh: true}
			way := []string{name}
			s := state{ward: &ward{keeper: &Keeper{}}, name: name, until: n.Now.Add(time.Hour)}
			for d := s.Next(n); d.State != nil && len(way) < 5; d = s.Next(n) {
				s = d.State.(state)
				way = append(way, s.name)
				if s.name == waiting && d.Action == nil {
					break
				}
			}
			if !slices.Contains(way, waiting) || slices.Contains(way[1:], failed) || slices.Contains(way[1:], completed) {
				t.Errorf("exit code %d: %v", code, way)
			}
		}
	}
}
