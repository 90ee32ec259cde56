package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// victimVariable makes the test binary a process that waits to be killed.
const victimVariable = "PAWL_ENGINE_VICTIM"

// victim claims steps on the database KIND WHERE, reports it, and never ends them.
func victim(where string) {
	kind, path, _ := strings.Cut(where, " ")
	s, err := openStore(kind, path, nil)
	if err == nil {
		e := engine.New(engine.Config{Store: s})
		_, err = worker.Start(context.Background(), e, worker.Config{Handlers: map[string]worker.Handler{
			"h": func(_ context.Context, t *worker.Task) worker.Result {
				fmt.Println("started " + t.Key)
				select {}
			}}})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

// startVictim starts it and waits until it holds a step for each line.
func startVictim(t *testing.T, db *database, lines int) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+db.kind+" "+db.where)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	r := bufio.NewReader(out)
	for range lines {
		if line, err := r.ReadString('\n'); !strings.HasPrefix(line, "started ") {
			t.Fatalf("the other process says %q, %v", line, err)
		}
	}
	return kill
}

// TestAKilledProcess: other workers run its steps within 10 s, and the job stays RUNNING
// meanwhile.
func TestAKilledProcess(t *testing.T) { // T10, J9
	onShared(t, func(t *testing.T, db *database) {
		observer := startProcess(t, db.open(), nil)
		id := observer.submit(define(t, `
name: orphaned
steps: [{id: a, handler: h, retry: {max_attempts: 1}}, {id: b, handler: h, retry: {max_attempts: 1}}, {id: c, handler: h, needs: [a, b]}]
`), "")
		kill := startVictim(t, db, 2)
		p := startProcess(t, db.open(), map[string]worker.Handler{"h": echo})
		kill()
		killed := time.Now()
		v := p.wait(id)
		if took := time.Since(killed); took > 10*time.Second {
			t.Errorf("the job ended %s after the kill; want 10 s at most", took)
		}
		if v.Status != lifecycle.JobCompleted {
			t.Errorf("status %s, error %v; want COMPLETED", v.Status, v.Error)
		}
		for _, key := range []string{"a", "b"} {
			if s := steps(v)[key]; s.Claims != 2 || s.Attempts != 1 {
				t.Errorf("step %s: %d claims, %d attempts; want 2 claims and the lost attempt refunded", key, s.Claims, s.Attempts)
			}
		}
		var path []string
		for _, h := range v.StateHistory {
			path = append(path, string(h.To))
		}
		if got := strings.Join(path, " "); got != "SUBMITTED PENDING RUNNING COMPLETED" {
			t.Errorf("the job went %s; want it RUNNING all the time", got)
		}
		p.settled(id)
		verify(t, p.store)
	})
}
