package worker

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// TestAComparisonWaitsForBothVisits: a worker that may hold claims of which it has not heard compares
// when no visit is under way, since what a visit has claimed is not known before it ends. Meanwhile
// none begins beside another. What runs is known, and so is what is to be reported (T5).
func TestAComparisonWaitsForBothVisits(t *testing.T) {
	atDesk(t, 100, func(t *testing.T, d *desk, _ *Worker) {
		compared, known := 0, make(map[rowkey.Job]bool)
		d.compared = func(knows func(link.Stop) bool) {
			compared++
			for n := 1; n <= d.claims+1; n++ {
				job := rowkey.Job(1000 + n)
				known[job] = knows(link.Stop{StepKey: pawl.StepKey{Job: job, Ord: pawl.MakeOrd(1, n)}, Claim: 1})
			}
		}
		a, b := d.both()
		d.strays <- struct{}{}
		d.end(20)
		d.none("two are under way")
		d.assign(a, 0, 0)
		d.none("a comparison is to come")
		if compared != 0 {
			t.Fatal("it compared beside a visit")
		}
		d.assign(b, b.Free, 0)
		c := d.next()
		if compared != 1 {
			t.Fatalf("it compared %d times", compared)
		}
		unknown := 0
		for n := 1; n <= d.claims; n++ {
			if !known[rowkey.Job(1000+n)] {
				unknown++
			}
		}
		if unknown != 51 || known[rowkey.Job(1000+d.claims+1)] {
			t.Errorf("of %d claims %d were unknown; want the 51 that were reported and accepted", d.claims, unknown)
		}
		d.assign(c, 0, 0)
		synctest.Wait()
	})
}

// TestLentSlotsAreRecalled if the worker has no slot left for what waits in the queue.
func TestLentSlotsAreRecalled(t *testing.T) {
	atDesk(t, 2, func(t *testing.T, d *desk, w *Worker) {
		recalls := func() (n int) { d.set(func() { n = d.recalls }); return n }
		c := d.next()
		d.assign(c, 1, 0)
		synctest.Wait()
		if n := recalls(); n != 0 {
			t.Fatalf("slots were recalled %d times while one is free", n)
		}
		d.set(func() { d.rung = true })
		d.work <- struct{}{}
		d.assign(d.next(), 1, 0)
		synctest.Wait()
		d.work <- struct{}{}
		synctest.Wait()
		if recalls() == 0 {
			t.Error("nothing was recalled, though something waits and all slots are in use")
		}
		d.set(func() { d.rung = false })
	})
}
