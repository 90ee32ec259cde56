package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// rolled is a workflow whose steps leave a line each time they run.
const rolled = `name: rolled
inputs: {n: {type: integer, required: true}, file: {type: string, required: true}}
env: {FILE: "${{ inputs.file }}", N: "${{ inputs.n }}"}
steps:
  - {id: one, run: 'echo "$N one" >> "$FILE"'}
  - {id: two, needs: [one], if: "${{ inputs.n >= 0 }}", run: 'echo "$N two" >> "$FILE"'}
`

// TestRollingRestart: while jobs come in, every server and worker is replaced by
// one of the next version, one by one. Nothing is lost, and nothing runs twice,
// since each may finish what it has begun (T5).
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	url, dir := pgtest.URL(t), t.TempDir()
	old, next := binary(t), buildRelease(t, dir, "v2")
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e := engine.New(engine.Config{Store: db, Passive: true})
	defer e.Close()
	effects := filepath.Join(dir, "effects")
	ctx, stop := context.WithCancel(t.Context())
	submitted := make(chan int, 1) // read when it has ended
	roles := []string{"server", "worker", "worker"}
	var fleet []*rolling
	for _, role := range roles {
		fleet = append(fleet, startRolling(t, old, url, role))
	}
	go func() { submitted <- submitRolled(ctx, t, e, effects) }()
	for i, role := range roles {
		until(t, "some jobs have ended", func() bool { return endedJobs(t, db) > 5*(i+1) })
		replacement := startRolling(t, next, url, role)
		fleet[i].leave(t)
		fleet[i] = replacement
	}
	after := endedJobs(t, db)
	until(t, "more jobs have ended", func() bool { return endedJobs(t, db) > after+5 })
	stop()
	n := <-submitted
	until(t, "all jobs have ended", func() bool { return endedJobs(t, db) == n })
	checkRolled(t, db, effects, n)
	for _, p := range fleet {
		p.leave(t)
	}
	if out, err := exec.Command(next, "--database", url, "audit", "verify").CombinedOutput(); err != nil {
		t.Errorf("audit verify: %v\n%s", err, out)
	}
}

// buildRelease returns the program, built as that release.
func buildRelease(t *testing.T, dir, version string) string {
	t.Helper()
	path := filepath.Join(dir, "pawl-"+version)
	if out, err := exec.Command("go", "build", "-ldflags", "-X main.release="+version, "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// A rolling process is a server or a worker.
type rolling struct {
	cmd  *exec.Cmd
	talk chan string // all that it has said, when it has ended
}

// startRolling starts a process and waits until it works.
func startRolling(t *testing.T, program, url, role string) *rolling {
	t.Helper()
	p := &rolling{cmd: exec.Command(program, "--database", url, role), talk: make(chan string, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	ready := make(chan bool, 1)
	go func() {
		said := ""
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if said += lines.Text() + "\n"; strings.Contains(lines.Text(), "stop with Ctrl-C") {
				ready <- true
			}
		}
		close(ready)
		p.talk <- said
	}()
	if !<-ready {
		t.Fatalf("%s does not start: %s", role, <-p.talk)
	}
	return p
}

// leave asks the process to stop, and waits until it has.
func (p *rolling) leave(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	said := <-p.talk
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(p.cmd.Args, " "), err, said)
	}
}

// submitRolled submits jobs one by one until ctx ends, and returns how many.
func submitRolled(ctx context.Context, t *testing.T, e *engine.Engine, effects string) (n int) {
	def, err := workflow.Parse("rolled", []byte(rolled))
	if err != nil {
		t.Error(err)
		return 0
	}
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		inputs, _ := json.Marshal(map[string]any{"n": n, "file": effects})
		answers, err := e.Submit(context.Background(), pawl.Submission{Definition: def.Canonical(), Actor: "test", Inputs: inputs})
		if err != nil || answers[0].Err != nil {
			t.Error(err, answers)
			return n
		}
		n++
		<-pace.C
	}
	return n
}

func endedJobs(t *testing.T, db *postgres.DB) int {
	t.Helper()
	jobs, err := db.Jobs(t.Context(), store.JobFilter{States: []machine.State{lifecycle.JobCompleted, lifecycle.JobFailed, lifecycle.JobCanceled}})
	if err != nil {
		t.Fatal(err)
	}
	return len(jobs)
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !f(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 2 min: %s", what)
		}
	}
}

// checkRolled checks that every job is complete and ran each step once, and that
// the processes of both versions have said which they are.
func checkRolled(t *testing.T, db *postgres.DB, effects string, n int) {
	t.Helper()
	jobs, err := db.Jobs(t.Context(), store.JobFilter{States: []machine.State{lifecycle.JobCompleted}})
	if err != nil || len(jobs) != n {
		t.Errorf("%d jobs are complete, %v, want %d", len(jobs), err, n)
	}
	text, err := os.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%d one", i), fmt.Sprintf("%d two", i))
	}
	got := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("effects %q, want %q", got, want)
	}
	nodes, err := db.Nodes(t.Context())
	versions := map[string]int{}
	for _, node := range nodes {
		versions[node.Version]++
	}
	if err != nil || len(versions) != 2 || versions["v2"] != 3 || len(nodes) != 6 {
		t.Errorf("processes by version %v, %v, want 3 of each of two", versions, err)
	}
}
