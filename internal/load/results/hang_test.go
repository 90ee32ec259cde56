package results

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/results/resultstest"
)

// TestHang: a run whose files hang is not waited for for ever, and holds up no other run; nor do requests
// pile up behind it.
func TestHang(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n, name := range []string{"a", "b"} {
		resultstest.Write(t, dir, name, n, 1, resultstest.File)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.slow = 20 * time.Millisecond
	reads := f.locked("a") // as if the file system did not let it go on
	for range maxReading - 1 {
		if _, err := f.List(); pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("a list that hangs: %v", err)
		}
	}
	f.slow = time.Minute
	if r, err := f.Run("b"); err != nil || r.State != Completed {
		t.Errorf("another run: %+v, %v", r, err)
	}
	f.slow = 20 * time.Millisecond
	for range 2 * maxReading { // of which one hangs, and the others do not begin
		if _, err := f.Run("a"); pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("a run that hangs: %v", err)
		}
	}
	f.slow = time.Minute
	reads.mu.Unlock()
	if all, err := f.List(); err != nil || len(all) != 2 {
		t.Errorf("afterwards: %+v, %v", all, err)
	}
}
