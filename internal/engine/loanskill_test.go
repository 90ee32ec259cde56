package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// submitterVariable makes the test binary a process that submits one job after the other.
const submitterVariable = "PAWL_ENGINE_SUBMITTER"

// submitter submits to the database, and prints the id of each job. Asked to die, it kills itself
// between a commit that has claimed a step for a worker of another process and the message.
func submitter(arguments string) {
	mode, url, _ := strings.Cut(arguments, " ")
	s, err := openStore("postgres", url, nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if mode == "die" {
		s = &mortal{s}
	}
	def, err := workflow.Parse("test.yaml", []byte(oneStep))
	e := engine.New(engine.Config{Store: s, Passive: true})
	for err == nil {
		var made []pawl.Submitted
		if made, err = e.Submit(context.Background(), pawl.Submission{Definition: def.Canonical(), Actor: "test"}); err == nil {
			fmt.Println("submitted " + made[0].ID.Public(pawl.JobPrefix))
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// A mortal store dies of the first message about claims.
type mortal struct{ store.Store }

func (m *mortal) Send(to string, s *store.Message) {
	if s.Kind == store.MessageTake {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	m.Store.Send(to, s)
}

// startSubmitter starts it. ids receives what it has submitted, and is closed at its end.
func startSubmitter(t *testing.T, mode, url string) (ids <-chan pawl.ID, process *os.Process) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), submitterVariable+"="+mode+" "+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	list := make(chan pawl.ID, 100_000) // of all that it can submit in a test
	go func() {
		defer close(list)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			public, ok := strings.CutPrefix(lines.Text(), "submitted ")
			if id, err := pawl.ParseID(pawl.JobPrefix, public); ok && err == nil {
				list <- id
			} else {
				t.Errorf("the submitter says %q", lines.Text())
			}
		}
		_ = cmd.Wait()
	}()
	return list, cmd.Process
}

// A onceEach counts how often each claim of a step has begun.
type onceEach struct {
	mu    sync.Mutex
	begun map[string]int
	runs  map[string]int // of each step, at this moment
	t     *testing.T
}

func (c *onceEach) handle(_ context.Context, task *worker.Task) worker.Result {
	claim := fmt.Sprintf("%s/%d", task.StepID, task.Claim)
	c.mu.Lock()
	if c.begun[claim]++; c.begun[claim] > 1 {
		c.t.Errorf("claim %s has begun %d times", claim, c.begun[claim])
	}
	if c.runs[task.StepID]++; c.runs[task.StepID] > 1 {
		c.t.Errorf("step %s runs twice at once", task.StepID)
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.runs[task.StepID]--
	}()
	return worker.Result{}
}

// watched counts what is sent through a store.
type watched struct {
	store.Store
	lends atomic.Int64
}

func (w *watched) Send(to string, m *store.Message) {
	if m.Kind == store.MessageLend {
		w.lends.Add(1)
	}
	w.Store.Send(to, m)
}

// inFlight returns how many jobs have not ended.
func inFlight(t *testing.T, s store.Store) int {
	t.Helper()
	jobs, err := s.Jobs(t.Context(), store.JobFilter{States: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}, Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	return len(jobs)
}

// TestASubmitterThatDiesBeforeItsMessagePostgres: a step that was claimed for a worker by a process
// that was killed before it could say so begins all the same, though the worker lives: all jobs end,
// no claim begins twice, and no attempt is lost (T5, T10).
func TestASubmitterThatDiesBeforeItsMessagePostgres(t *testing.T) {
	t.Parallel()
	db := &database{t: t, kind: "postgres", where: pgtest.Copy(t, migrated)}
	count := &onceEach{t: t, begun: map[string]int{}, runs: map[string]int{}}
	p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": count.handle}, capacity: 20})
	for range 3 {
		ids, _ := startSubmitter(t, "die", db.where)
		for range ids { // until it has died
		}
		died := time.Now()
		for inFlight(t, p.store) > 0 {
			if time.Since(died) > patience {
				t.Fatalf("%d jobs have not ended", inFlight(t, p.store))
			}
			time.Sleep(20 * time.Millisecond) // a poll, bounded by patience
		}
	}
	jobs, err := p.store.Jobs(t.Context(), store.JobFilter{Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for _, j := range jobs {
		for _, s := range steps(p.job(j.ID)) {
			if s.Claims > 1 {
				again++
			}
			if s.Attempts != 1 {
				t.Errorf("job %s: %d attempts by %d claims", j.ID.Public(pawl.JobPrefix), s.Attempts, s.Claims)
			}
		}
	}
	if again < 3 {
		t.Errorf("%d steps were claimed again, want one for each submitter that died", again)
	}
	verify(t, p.store)
}

// TestSubmittersAndWorkersInProcessesOfTheirOwnPostgres: while submitters are killed at any moment, or
// stand still for a while, every job ends, and no claim begins twice.
func TestSubmittersAndWorkersInProcessesOfTheirOwnPostgres(t *testing.T) {
	t.Parallel()
	db := &database{t: t, kind: "postgres", where: pgtest.Copy(t, migrated)}
	count := &onceEach{t: t, begun: map[string]int{}, runs: map[string]int{}}
	sent := &watched{Store: db.open()}
	p := start(t, sent, setup{handlers: map[string]worker.Handler{"h": count.handle}, capacity: 20})
	start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": count.handle}, capacity: 4})
	for range 4 {
		ids, first := startSubmitter(t, "live", db.where)
		others, second := startSubmitter(t, "live", db.where)
		for range 60 {
			<-ids
			<-others
		}
		_ = first.Signal(syscall.SIGSTOP)
		for range 30 {
			<-others
		}
		_ = second.Kill()
		_ = first.Signal(syscall.SIGCONT)
		for range 5 {
			<-ids
		}
		_ = first.Kill()
		for range ids {
		}
		for range others {
		}
	}
	begun := time.Now()
	for inFlight(t, p.store) > 0 && time.Since(begun) < patience {
		time.Sleep(20 * time.Millisecond) // a poll, bounded by patience
	}
	if n := inFlight(t, p.store); n > 0 {
		t.Errorf("%d jobs have not ended", n)
	}
	if sent.lends.Load() == 0 {
		t.Error("no slot was lent to a submitter")
	}
	verify(t, p.store)
}
