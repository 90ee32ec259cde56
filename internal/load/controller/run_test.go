package controller

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// try runs a test on fakes, on a clock of its own.
func try(t *testing.T, fakes []*fake, with func(*Config), check func(t *testing.T, got *report.Run, err error)) {
	t.Helper()
	records := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Config{ID: runID, File: []byte("name: t"), Test: fakeTest(), Agents: serve(t, fakes...), Build: "test", Records: records}
		if with != nil {
			with(&c)
		}
		got, err := Run(t.Context(), c)
		check(t, got, err)
	})
}

// statuses returns the states that the agents have ended in.
func statuses(r *report.Run) string {
	var all []string
	for _, a := range r.Agents {
		all = append(all, strings.TrimPrefix(a.Status.String(), "STATUS_"))
	}
	return strings.Join(all, " ")
}

// TestRun: all agents get the config, are measured, begin at one time, and their results are
// fetched and acknowledged by their hash (L7).
func TestRun(t *testing.T) {
	t.Parallel()
	fakes := []*fake{{prepare: 3 * time.Second, forget: true}, {torn: 2}, {shift: -5 * time.Second}}
	var intervals []Interval
	var phases []Phase
	try(t, fakes, func(c *Config) {
		c.Interval = func(i Interval) { intervals = append(intervals, i) }
		c.Changed = func(v View) {
			if len(phases) == 0 || phases[len(phases)-1] != v.Phase {
				phases = append(phases, v.Phase)
			}
		}
	}, func(t *testing.T, got *report.Run, err error) {
		if err != nil || got.Outcome != "completed" || statuses(got) != "COMPLETED COMPLETED COMPLETED" {
			t.Fatal(got.Outcome, got.Reason, statuses(got), err)
		}
		for i, f := range fakes {
			if f.config != "name: t" || len(f.acks) != 1+map[int]int{0: 1}[i] || !f.trueTime(f.startNs).Equal(got.Started) {
				t.Errorf("agent %d: config %q, %d acknowledgements, start %v, want %v", i, f.config, len(f.acks), f.trueTime(f.startNs), got.Started)
			}
			if h := f.hello; h.GetConfigMs() != 30_000 || h.GetLeaseMs() != 30_000 || h.GetBuild() != "test" {
				t.Errorf("agent %d was greeted with %v", i, h)
			}
			result, err := os.ReadFile(got.Agents[i].Records)
			if err != nil || string(result) != string(f.result) || got.Agents[i].Live || got.Agents[i].Skew != [2]time.Duration{} {
				t.Errorf("agent %d: %d bytes of result, want %d; %v; skew %v", i, len(result), len(f.result), err, got.Agents[i].Skew)
			}
		}
		if d := got.Agents[2].Clock.Offset; d != -5*time.Second {
			t.Errorf("offset %v, want -5s", d)
		}
	})
	if len(intervals) != 5 {
		t.Fatalf("%d intervals, want 5", len(intervals))
	}
	for n, i := range intervals {
		if i.Agents != 3 || i.End != time.Duration(n+1)*time.Second || i.Operations[i.Operations.Keys()[0]].Operations != 3 {
			t.Errorf("interval %d: %d agents, end %v", n, i.Agents, i.End)
		}
	}
	if diff := cmp.Diff([]Phase{Connecting, Preparing, Starting, Running}, phases); diff != "" {
		t.Error(diff)
	}
}

// TestPolicies: how many agents may fail, and when, by the policy; those that are left are
// aborted as soon as they are too few, and told why (L7).
func TestPolicies(t *testing.T) {
	t.Parallel()
	full := &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_NO_SPACE, Message: "no space left"}
	all := spec.Start{Delay: time.Second, Policy: spec.All}
	two := spec.Start{Delay: time.Second, Policy: spec.Quorum, Quorum: 2}
	one := spec.Start{Delay: time.Second, Policy: spec.BestEffort}
	for _, tt := range []struct {
		name     string
		start    spec.Start
		fakes    []*fake
		statuses string
		reason   string // "": the run completes
		within   time.Duration
	}{
		{"all, one cannot prepare", all, []*fake{{prepare: 20 * time.Second}, {refuse: full}}, "ABORTED ERROR", "agent b: no space left", 2 * time.Second},
		{"all, one makes no progress", all, []*fake{{}, {stuck: true}}, "ABORTED ABORTED", "agent b: it made no progress in preparing for 35s", 37 * time.Second},
		{"all, one fails", all, []*fake{{}, {fails: 2 * time.Second}}, "ABORTED ERROR", "agent b: read: input/output error", 5 * time.Second},
		{"all, a stream breaks", all, []*fake{{}, {breaks: 2 * time.Second}}, "ABORTED RUNNING", "agent b: the connection was lost: the stream was broken", 34 * time.Second},
		{"all, one goes silent", all, []*fake{{}, {mute: time.Second, endless: true}}, "COMPLETED RUNNING", "agent b: the connection was lost: no sign of life for 15", 55 * time.Second},
		{"all, one does not end", all, []*fake{{}, {endless: true}}, "COMPLETED ABORTED", "agent b: the load has not ended within 32s of its end", 40 * time.Second},
		{"all, one does not stop", all, []*fake{{fails: 2 * time.Second}, {endless: true, stubborn: true}}, "ERROR RUNNING", "agent a: read: input/output error", 99 * time.Second},
		{"all, one is ahead", all, []*fake{{}, {ahead: true}}, "ABORTED ABORTED", "agent b: it has sent statistics of a time that has not come: from 168h0m0s on", 5 * time.Second},
		{"all, one invents operations", all, []*fake{{}, {invents: true}}, "ABORTED ABORTED", `agent b: "defragment" of size class "<=4KiB" is no operation`, 5 * time.Second},
		{"all, one is busy", all, []*fake{{busy: &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_BUSY, Message: "another run is on"}}}, "ERROR", "agent a: another run is on", 8 * time.Second},
		{"all, one cleans up for long", all, []*fake{{}, {cleans: time.Hour}}, "COMPLETED COMPLETED", "", time.Hour + 9*time.Second},
		{"all, one is slow", all, []*fake{{}, {prepare: time.Hour}}, "COMPLETED COMPLETED", "", time.Hour + 7*time.Second},
		{"quorum, one fails", two, []*fake{{}, {refuse: full}, {}}, "COMPLETED ERROR COMPLETED", "", 7 * time.Second},
		{"quorum, two fail", two, []*fake{{}, {refuse: full}, {fails: 3 * time.Second}}, "ABORTED ERROR ERROR",
			"1 of 3 agents are left and 2 are needed; the first to fail: agent b: no space left", 6 * time.Second},
		{"quorum, one is too slow", two, []*fake{{}, {prepare: 5 * time.Minute}, {}}, "COMPLETED ABORTED COMPLETED", "", 52 * time.Second},
		{"quorum, the start is far ahead", spec.Start{Delay: 4 * time.Minute, Policy: spec.Quorum, Quorum: 1}, []*fake{{}, {prepare: 5 * time.Second}}, "COMPLETED COMPLETED", "", 252 * time.Second},
		{"best effort, all but one fail", one, []*fake{{refuse: full}, {}, {breaks: time.Second}}, "ERROR COMPLETED RUNNING", "", 35 * time.Second},
		{"best effort, all fail", one, []*fake{{refuse: full}, {refuse: full}}, "ERROR ERROR",
			"0 of 2 agents are left and 1 are needed; the first to fail: ", 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			begun := time.Time{}
			try(t, tt.fakes, func(c *Config) { c.Test.Start, begun = tt.start, time.Now() }, func(t *testing.T, got *report.Run, err error) {
				if (tt.reason == "") != (err == nil) || !strings.HasPrefix(got.Reason, tt.reason) {
					t.Errorf("reason %q, want %q; error %v", got.Reason, tt.reason, err)
				}
				if s := statuses(got); s != tt.statuses {
					t.Errorf("agents %s, want %s", s, tt.statuses)
				}
				if d := time.Since(begun); d > tt.within {
					t.Errorf("took %v, want %v at most", d, tt.within)
				}
				for i, f := range tt.fakes {
					if tt.reason != "" && statuses(got) == "ABORTED" && !strings.Contains(f.aborts[0], got.Reason) {
						t.Errorf("agent %d was told %q", i, f.aborts)
					}
				}
			})
		})
	}
}

// TestLongIntervals: statistics that come once a minute are in time (L7).
func TestLongIntervals(t *testing.T) {
	t.Parallel()
	try(t, []*fake{{quietly: 100 * time.Second}}, func(c *Config) { c.Test.Interval, c.Test.Duration = time.Minute, 2*time.Minute }, func(t *testing.T, got *report.Run, err error) {
		if err != nil {
			t.Error(err)
		}
	})
}

// TestLostMessages: a result that an agent has kept counts though its last message was lost, one
// that is not what was announced does not, and messages of other sessions and runs are none (L7).
func TestLostMessages(t *testing.T) {
	t.Parallel()
	t.Run("the last message", func(t *testing.T) {
		t.Parallel()
		try(t, []*fake{{vanish: true}, {}}, nil, func(t *testing.T, got *report.Run, err error) {
			if err != nil || statuses(got) != "COMPLETED COMPLETED" || got.Agents[0].Records == "" || got.Agents[0].Live {
				t.Error(err, statuses(got))
			}
		})
	})
	t.Run("another result", func(t *testing.T) {
		t.Parallel()
		try(t, []*fake{{lie: true}, {}}, nil, func(t *testing.T, got *report.Run, err error) {
			if err == nil || !strings.Contains(got.Reason, "as announced") || !got.Agents[0].Live || !strings.Contains(got.Agents[0].Missing, "as announced") {
				t.Error(err, got.Reason)
			}
		})
	})
	t.Run("statistics", func(t *testing.T) {
		t.Parallel()
		n := 0
		try(t, []*fake{{drops: true}, {}}, func(c *Config) { c.Interval = func(i Interval) { n += i.Agents } }, func(t *testing.T, got *report.Run, err error) {
			if err != nil || got.Agents[0].Dropped != 1 || got.Agents[1].Dropped != 0 || n != 9 {
				t.Error(err, got.Agents[0].Dropped, got.Agents[1].Dropped, n)
			}
		})
	})
	t.Run("messages of others", func(t *testing.T) {
		t.Parallel()
		try(t, []*fake{{stale: true}}, nil, func(t *testing.T, got *report.Run, err error) {
			if err != nil || got.Agents[0].Dropped != 0 {
				t.Error(err, got.Agents[0].Dropped)
			}
		})
	})
}

// TestStop: a run that its user stops is aborted everywhere, with the reason, in each phase; if
// that takes too long for the user, too, the streams break (L7).
func TestStop(t *testing.T) {
	t.Parallel()
	for _, phase := range []Phase{Connecting, Preparing, Starting, Running} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			fakes := []*fake{{prepare: 2 * time.Second}, {}}
			try(t, fakes, func(c *Config) {
				stop, closed := make(chan struct{}), false
				c.Stop = stop
				c.Changed = func(v View) {
					if v.Phase == phase && !closed {
						closed = true
						close(stop)
					}
				}
			}, func(t *testing.T, got *report.Run, err error) {
				if !errors.Is(err, context.Canceled) || got.Outcome != "aborted" || got.Reason != "cancelled by user" {
					t.Error(err, got.Outcome, got.Reason)
				}
				for i, f := range fakes {
					if phase != Connecting && (len(f.aborts) != 1 || f.aborts[0] != "cancelled by user" || got.Agents[i].Status != loadpb.Status_STATUS_ABORTED) {
						t.Errorf("agent %d: told %q, status %v", i, f.aborts, got.Agents[i].Status)
					}
				}
			})
		})
	}
	t.Run("for a reason", func(t *testing.T) {
		t.Parallel()
		fakes := []*fake{{}, {}}
		outcome := ""
		try(t, fakes, func(c *Config) {
			abort := make(chan string, 1) // 1: it is sent by who would receive it
			c.Abort = abort
			c.Changed = func(v View) {
				if outcome = v.Outcome; v.Phase == Running && len(abort) == 0 {
					abort <- "by ada: too slow"
				}
			}
		}, func(t *testing.T, got *report.Run, err error) {
			var aborted *AbortedError
			if !errors.As(err, &aborted) || aborted.Reason != "by ada: too slow" || got.Outcome != "aborted" || got.Reason != "aborted by ada: too slow" || outcome != "aborted" {
				t.Error(err, got.Outcome, got.Reason, outcome)
			}
			for i, f := range fakes {
				if len(f.aborts) != 1 || f.aborts[0] != got.Reason {
					t.Errorf("agent %d: told %q", i, f.aborts)
				}
			}
		})
	})
	t.Run("by force", func(t *testing.T) {
		t.Parallel()
		records := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			ctx, force := context.WithTimeout(t.Context(), 3*time.Second)
			defer force()
			stop := make(chan struct{})
			close(stop)
			begun := time.Now()
			got, err := Run(ctx, Config{ID: runID, File: []byte("name: t"), Test: fakeTest(), Agents: serve(t, &fake{stubborn: true, stuck: true}), Stop: stop, Records: records})
			if err == nil || got.Outcome != "aborted" || time.Since(begun) > 3*time.Second {
				t.Error(err, got.Outcome, time.Since(begun))
			}
		})
	})
}

// TestStartTimes: with clocks that are seconds apart and run at different speeds, and with
// messages that take longer one way than the other, the start times of all agents are the
// same time: as close as the bound that is reported (L7).
func TestStartTimes(t *testing.T) {
	t.Parallel()
	delay := func(probe int) (there, back time.Duration) {
		d := time.Duration(probe*7%11) * 100 * time.Microsecond // few are fast, and all are lopsided
		return 300*time.Microsecond + d, 100*time.Microsecond + d/3
	}
	fakes := []*fake{
		{shift: 5 * time.Second, ppm: 100, delay: delay}, {shift: -5 * time.Second, ppm: -100, delay: delay},
		{shift: 3 * time.Hour, ppm: -100, delay: delay}, {delay: delay},
		{ppm: 100}, // measured exactly: it is all drift
	}
	try(t, fakes, nil, func(t *testing.T, got *report.Run, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range fakes {
			a := got.Agents[i]
			off := f.trueTime(f.startNs).Sub(got.Started).Abs()
			measuring := time.Duration(math.Abs(f.ppm) * 300) // over the 0.3 s of the measurement
			if off > a.Clock.Bound+measuring || off > 2*time.Millisecond || a.Clock.Bound > time.Millisecond {
				t.Errorf("agent %d begins %v off, bound %v", i, off, a.Clock.Bound)
			}
			if a.Skew[0].Abs() > 2*time.Millisecond || f.probed != probes {
				t.Errorf("agent %d: skew %v, %d probes", i, a.Skew, f.probed)
			}
		}
	})
}

// TestUnreachable: an agent that accepts a connection and says nothing, or none, ends the run within
// the time for greetings and before anything is prepared elsewhere (L2, L7).
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]func(context.Context, string) (net.Conn, error){
		"says nothing": func(context.Context, string) (net.Conn, error) {
			c, s := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, s) }()
			return c, nil
		},
		"takes for ever": func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		"refuses":        func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := &fake{}
			begun := time.Time{}
			try(t, []*fake{other}, func(c *Config) {
				begun = time.Now()
				c.Agents = append(c.Agents, Target{Address: "far", Options: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial)}})
			}, func(t *testing.T, got *report.Run, err error) {
				if pawl.KindOf(err) != pawl.Unavailable || !strings.HasPrefix(err.Error(), "agent far: ") || other.config != "" {
					t.Errorf("%v; the other agent got %q", err, other.config)
				}
				if d := time.Since(begun); d > 22*time.Second {
					t.Errorf("took %v", d)
				}
			})
		})
	}
}

// TestBadConfigs: what cannot be a run is an error before anything is sent.
func TestBadConfigs(t *testing.T) {
	t.Parallel()
	test := fakeTest()
	test.Start = spec.Start{Policy: spec.Quorum, Quorum: 2}
	for want, c := range map[string]Config{
		"a run needs an agent":                       {Test: fakeTest()},
		"start.quorum 2: there are 1 agents":         {Test: test, Agents: []Target{{Address: "a"}}, Records: "."},
		"a run needs a folder for records":           {Test: fakeTest(), Agents: []Target{{Address: "a"}}},
		`agent "a": grpc: no transport security set`: {Test: fakeTest(), Agents: []Target{{Address: "a"}}, Records: "."},
	} {
		if _, err := Run(t.Context(), c); pawl.KindOf(err) != pawl.Invalid || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
