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

// (S14) what a state decides at moments that a scenario cannot produce: the program has
// ended before it was observed to run, or a stop comes in between.
func TestNext(t *testing.T) {
	t.Parallel()
	now := time.Now()
	once := defaultProgram("web")
	once.Restart.Policy = spec.OnFailure
	good := &exit{Text: "exit code 0", At: now, Generation: 1}
	bad := &exit{Text: "exit code 1", Code: 1, At: now, Generation: 1}
	wanted := desired{Spec: once, Run: true, Generation: 1}
	tests := []struct {
		name     string
		in       state
		seen     observed
		desired  desired
		shutdown bool
		stale    bool // not observed since the last action
		want     string
		action   string
	}{
		{name: "begins", in: state{name: waiting}, desired: wanted, want: "", action: "start"},
		{name: "is being started", in: state{name: waiting}, seen: observed{Launching: true}, desired: wanted},
		{name: "ended well, unseen", in: state{name: waiting}, seen: observed{Attempts: 1, WasReady: true, Exit: good}, desired: wanted, want: running},
		{name: "ended well, unseen and not ready", in: state{name: waiting}, seen: observed{Attempts: 1, Exit: good}, desired: wanted, want: stopping},
		{name: "ended badly, unseen", in: state{name: waiting}, seen: observed{Attempts: 1, Failures: 1, WasReady: true, Exit: bad}, desired: wanted, want: backoff},
		{name: "ended before it waited", in: state{name: waiting, after: 1}, seen: observed{Attempts: 1, Exit: bad}, desired: wanted, action: "start"},
		{name: "ended well", in: state{name: running}, seen: observed{Attempts: 1, Exit: good}, desired: wanted, want: completed},
		{name: "ended well, degraded", in: state{name: degraded}, seen: observed{Attempts: 1, WasReady: true, Exit: good}, desired: wanted, want: stopping},
		{name: "goes on to completed", in: state{name: stopping}, seen: observed{Attempts: 1, Exit: good}, desired: wanted, want: completed},
		{name: "but not when it is to stop", in: state{name: stopping}, seen: observed{Attempts: 1, Exit: good}, desired: desired{Spec: once, Generation: 1}, want: stopped},
		{name: "nor when it is ordered again", in: state{name: stopping}, seen: observed{Attempts: 1, Exit: good}, desired: desired{Spec: once, Run: true, Generation: 2, RestartBefore: 2}, want: stopped},
		{name: "not yet seen to have ended", in: state{name: stopping}, seen: observed{Attempts: 1, Exit: good}, desired: wanted, stale: true},
		{name: "the manager was killed", in: state{name: running}, desired: wanted, want: waiting},
		{name: "the manager was killed, and it is not wanted", in: state{name: running}, desired: desired{Spec: once}, want: stopping},
		{name: "runs what is older than a change", in: state{name: running}, seen: observed{Up: true, Ready: true, Generation: 1}, desired: desired{Spec: once, Run: true, Generation: 2, RestartBefore: 2}, want: stopping, action: "stop"},
		{name: "runs what is not touched by it", in: state{name: running}, seen: observed{Up: true, Ready: true, Generation: 1}, desired: desired{Spec: once, Run: true, Generation: 2}},
		{name: "has failed, and is changed", in: state{name: failed}, seen: observed{Exit: bad}, desired: desired{Spec: once, Run: true, Generation: 2}, want: waiting},
		{name: "has failed, and the supervisor stops", in: state{name: failed}, seen: observed{Exit: bad}, desired: desired{Spec: once, Run: true, Generation: 2}, shutdown: true},
		{name: "degraded, and the supervisor stops", in: state{name: degraded}, seen: observed{Up: true, Unhealthy: "sick"}, desired: wanted, shutdown: true, want: stopping, action: "stop"},
		{name: "between two starts, and the supervisor stops", in: state{name: backoff, until: now}, seen: observed{Exit: bad}, desired: wanted, shutdown: true, want: stopping},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n snapshot
			n.Now, n.Observed, n.Desired, n.Shutdown, n.Seen.Fresh = now, tt.seen, tt.desired, tt.shutdown, !tt.stale
			tt.in.program = &program{manager: &Manager{}}
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
	for _, s := range (&program{}).States() {
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
			if len(unmet([]spec.Need{{ID: "db", Condition: c}}, peers, noDetail)) == 0 {
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
	lone := unmet([]spec.Need{{ID: "db", Condition: spec.Ready}}, []supervisor.Peer{{ID: "db"}}, noDetail)
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

// (S14) A program ends by itself at the very moment of a restart: in whatever state that
// is observed, and whatever the policy says about such an exit, it is started.
func TestOrderAtTheMomentOfTheEnd(t *testing.T) {
	for name := range phases {
		for _, code := range []int{0, 1} {
			p := defaultProgram("a")
			p.Restart.Policy = spec.Never
			n := snapshot{
				Observed: observed{Attempts: 1, Generation: 1, WasReady: true, Exit: &exit{Code: code, At: time.Now(), Generation: 2}},
				Desired:  desired{Spec: p, Run: true, Generation: 2, RestartBefore: 2},
			}
			n.Now, n.Seen = time.Now(), supervisor.Observation{Sequence: 1, Fresh: true}
			way := []string{name}
			s := state{program: &program{manager: &Manager{}}, name: name, until: n.Now.Add(time.Hour)}
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
