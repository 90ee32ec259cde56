package engine_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

var instances = flag.Int("instances", 2_000, "of one job whose trail is verified")

// TestInstancesVerify: a job with very many instances is verified in little memory, and
// one of them that is missing is named (K6).
func TestInstancesVerify(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p := startProcess(t, s, map[string]worker.Handler{"h": nop})
		id := p.submit(define(t, "name: wide\ninputs: {items: {type: array, required: true}}\nsteps: [{id: each, handler: h, foreach: \"${{ inputs.items }}\"}]\n"), items(*instances))
		if v := p.waitFor(id, 20*patience); v.Status != lifecycle.JobCompleted {
			t.Fatalf("status %s, %v", v.Status, v.Error)
		}
		p.stop()

		n, peak := 0, int64(0)
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		v := trail.Verifier{Views: s}
		check := func(f *audit.Fault, err error) error {
			if err == nil && f != nil {
				err = f
			}
			return err
		}
		must(t, s.Trails(t.Context(), id.JobKey(), func(trail store.TrailOf) error {
			if n++; n%(*instances/8) == 0 {
				peak = max(peak, heap()-before)
			}
			return check(v.Take(t.Context(), trail))
		}))
		must(t, check(v.End(t.Context())))
		if most := int64(48<<20 + *instances*600); peak > most {
			t.Errorf("%d trails took %d MiB, want at most %d", n, peak>>20, most>>20)
		}
		t.Logf("%d trails, at most %d MiB", n, peak>>20)

		gone := int64(pawl.MakeOrd(1, *instances/2))
		for _, table := range []string{"step", "audit"} {
			db.sql(fmt.Sprintf("delete from %s where job = %d and ord = %d", table, id.JobKey(), gone))
		}
		if f, err := verified(s, id.JobKey()); err != nil || f == nil {
			t.Errorf("an instance was removed: %v, %v", f, err)
		}
	})
}
