package main

import (
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// effective writes a line for each run of a step.
const effective = `name: effective
env: {DIR: "${{ inputs.dir }}"}
inputs: {dir: {type: string, required: true}}
steps:
  - id: a
    run: |
      echo "$PAWL_STEP_ID $PAWL_CLAIM" >> "$DIR/effects"
      sleep 0.1
  - id: b
    needs: [a]
    run: echo "$PAWL_STEP_ID $PAWL_CLAIM" >> "$DIR/effects"
`

// TestFailover: PostgreSQL is killed under load, and its synchronous standby is promoted. The
// same processes continue there without a restart: no accepted job is lost or made twice, no
// step runs twice under one claim, and the trails are whole (K5, K6, J8, J9).
func TestFailover(t *testing.T) {
	t.Parallel()
	const jobs = 60
	primary, standby := pair(t)
	both := strings.Replace(primary.URL, "?", "?target_session_attrs=read-write&", 1)
	both = strings.Replace(both, "/postgres?", ","+hostOf(t, standby.URL)+"/postgres?", 1)
	f := newFleet(t, both)
	f.say("migrate", "up")
	for range 2 {
		f.start("server", "--listen", "none")
		f.start("worker", "--capacity", "4")
	}
	c, err := local.Open(t.Context(), both, local.Config{Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ids := make(map[pawl.ID]bool)
	for n := range jobs / 4 {
		ids[f.submitUntil(c, n)] = true
	}
	f.until("a job has ended", func() bool {
		list, err := c.Jobs.List(t.Context(), pawl.JobQuery{Statuses: []machine.State{lifecycle.JobCompleted}})
		return err == nil && len(list) > 0
	})
	primary.Kill()
	began := time.Now()
	promoted := make(chan error, 1) // 1: the test may have failed
	go func() { promoted <- standby.Promote(t.Context()) }()
	for n := jobs / 4; n < jobs; n++ {
		ids[f.submitUntil(c, n)] = true
	}
	if err := <-promoted; err != nil {
		t.Fatal(err)
	}
	if len(ids) != jobs {
		t.Errorf("%d requests made %d jobs", jobs, len(ids))
	}
	for id := range ids {
		if v, err := c.Jobs.Wait(t.Context(), id); err != nil || v.State != lifecycle.JobCompleted {
			t.Errorf("job %s: %+v, %v", id.Public(pawl.JobPrefix), v, err)
		}
	}
	t.Logf("all jobs have completed %s after the kill", time.Since(began).Round(100*time.Millisecond))
	f.onceForEachClaim(2 * jobs)
	f.say("audit", "verify")
}

// submitUntil submits a job, and repeats the request until it gets a response.
func (f *fleet) submitUntil(c *client.Client, n int) (id pawl.ID) {
	f.t.Helper()
	def, err := workflow.Parse("effective", []byte(effective))
	if err != nil {
		f.t.Fatal(err)
	}
	f.until(fmt.Sprintf("job %d is submitted", n), func() bool {
		done, err := c.Jobs.SubmitAll(f.t.Context(), client.Submission{Workflow: def, Inputs: map[string]string{"dir": f.dir}, RequestID: fmt.Sprint("job-", n)})
		if err == nil {
			err = done[0].Err
		}
		if err == nil {
			id = done[0].ID
		} else if pawl.KindOf(err) != pawl.Unavailable {
			f.t.Fatal(err)
		}
		return err == nil
	})
	return id
}

// onceForEachClaim checks that so many steps ran, each at most once by each of its claims.
func (f *fleet) onceForEachClaim(steps int) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "effects"))
	if err != nil {
		f.t.Fatal(err)
	}
	runs, ran := map[string]int{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		runs[line]++
		if runs[line] > 1 {
			f.t.Errorf("step and claim %s ran %d times", strings.TrimSpace(line), runs[line])
		}
		step, _, _ := strings.Cut(line, " ")
		ran[step] = true
	}
	if len(ran) != steps {
		f.t.Errorf("%d steps ran, want %d", len(ran), steps)
	}
	f.t.Logf("%d steps ran %d times", len(ran), len(runs))
}

// pair starts a primary and its synchronous standby.
func pair(t *testing.T) (primary, standby *pgtest.Cluster) {
	t.Helper()
	primary, err := pgtest.Start(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Stop() }) // it is dead by then
	if standby, err = primary.Standby(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	return primary, standby
}

// hostOf returns the host and port of a URL.
func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := neturl.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
