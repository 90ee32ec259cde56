package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// wide is a workflow of that many steps without needs and without workers.
func wide(steps int) string {
	var b strings.Builder
	b.WriteString("name: wide\nsteps:\n")
	for n := range steps {
		fmt.Fprintf(&b, "  - {id: s%d, handler: h}\n", n+1)
	}
	return b.String()
}

// TestAJobUnderAQuotaGoesOn: a quota leaves a job fewer slots than its workflow has, and a
// step that waits for one of them gets it when it is free.
func TestAJobUnderAQuotaGoesOn(t *testing.T) { // J7
	onDatabases(t, func(t *testing.T, db *database) {
		p := startProcess(t, db.open(), map[string]worker.Handler{"h": nop})
		p.limit("depth/0", 2)
		id := p.submit(define(t, wide(5)), "")
		if v := p.wait(id); v.Status != lifecycle.JobCompleted || v.WorkerCount != 2 {
			t.Errorf("the job is %s with %d slots, want it COMPLETED with 2", v.Status, v.WorkerCount)
		}
		p.settled(id)
		p.unused()
		verify(t, p.store)
	})
}

var _ = pawl.JobPrefix
