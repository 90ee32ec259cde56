package results

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/results/resultstest"
)

// TestHang: a run whose files hang is waited for once, and not at all by those that ask for it later; it holds up no other
// run and is listed as what cannot be read (L7).
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
	all, err := f.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "b" || all[0].State != Completed || all[1].State != Damaged || all[1].Reason != hangsReason {
		t.Errorf("the list that finds it: %+v, %v", all, err)
	}
	f.slow = time.Hour
	for range maxReading {
		if _, err := f.Run("a"); pawl.KindOf(err) != pawl.Unavailable || !strings.HasPrefix(err.Error(), `an earlier read of run "a"`) {
			t.Errorf("a run that hangs: %v", err)
		}
	}
	all, err = f.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "b" || all[0].State != Completed || all[1].State != Damaged || all[1].Reason != hangsReason {
		t.Errorf("a list beside it: %+v, %v", all, err)
	}
	reads.mu.Unlock()
	for all[1].State == Damaged { // until the first list has returned
		if all, err = f.List(t.Context()); err != nil || len(all) != 2 {
			t.Fatalf("afterwards: %+v, %v", all, err)
		}
	}
}

// TestHangAtOnce: as many reads of a run as there may be, which hang at the same time, hold up other runs no longer than
// until they are given up, and do so again for no other read of the run (L7).
func TestHangAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &Folder{slow: time.Second, deep: newGate()}
		hang := make(chan struct{})
		read := func(run string, hang <-chan struct{}) (time.Duration, error) {
			begun := time.Now()
			_, err := inTime(t.Context(), f, f.deep, run, func(*progress) (none struct{}, err error) {
				<-hang
				return none, nil
			})
			return time.Since(begun), err
		}
		var all sync.WaitGroup
		for range 3 * maxReading {
			all.Go(func() {
				if took, err := read("a", hang); pawl.KindOf(err) != pawl.Unavailable || took > f.slow {
					t.Errorf("%v, after %s", err, took)
				}
			})
		}
		synctest.Wait()
		never := make(chan struct{})
		close(never)
		if took, err := read("b", never); err != nil || took > 0 {
			t.Errorf("another run, meanwhile: %v, after %s", err, took)
		}
		all.Wait()
		synctest.Wait()
		if f.deep.hanging["a"] != maxOfRun || f.deep.total != 0 {
			t.Errorf("%d reads hang, and %d go on", f.deep.hanging["a"], f.deep.total)
		}
		if took, err := read("a", never); pawl.KindOf(err) != pawl.Unavailable || took > 0 {
			t.Errorf("one more: %v, after %s", err, took)
		}
		close(hang)
		synctest.Wait()
		if _, err := read("a", never); err != nil || len(f.deep.hanging)+len(f.deep.reads) > 0 {
			t.Errorf("afterwards: %v, %+v", err, f.deep)
		}
	})
}

// TestManyHang: runs that hang are not more than there may be threads for, and several reads of one count once.
func TestManyHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &Folder{slow: time.Second, deep: newGate()}
		hang := make(chan struct{})
		read := func(run int) error {
			_, err := inTime(t.Context(), f, f.deep, fmt.Sprint(run), func(*progress) (none struct{}, err error) {
				<-hang
				return none, nil
			})
			return err
		}
		var all sync.WaitGroup
		for n := range 2 * maxHanging {
			all.Go(func() { _ = read(n / 2) })
			if n%maxReading == maxReading-1 {
				all.Wait()
			}
		}
		synctest.Wait()
		if err := read(maxHanging); !errors.Is(err, errTooMany) || len(f.deep.hanging) != maxHanging || f.deep.hanging["0"] != 2 {
			t.Errorf("%v, %v hang", err, f.deep.hanging)
		}
		close(hang)
	})
}

// TestRunsThatHang: a list has all runs, though more of them hang than it reads at once, and those that hang as damaged; the
// next one does not wait for them (L7).
func TestRunsThatHang(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range 10 {
		resultstest.Write(t, dir, fmt.Sprint(n), n, 1, resultstest.File)
	}
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		hang := make(chan struct{})
		f.hold = func(file string) {
			if file < "5" {
				<-hang
			}
		}
		for _, most := range []time.Duration{2 * f.slow, 0} {
			begun := time.Now()
			all, err := f.List(t.Context())
			for _, r := range all {
				if (r.State == Damaged) != (r.Name < "5") {
					t.Errorf("run %s is %s", r.Name, r.State)
				}
			}
			if err != nil || len(all) != 10 || time.Since(begun) > most {
				t.Errorf("%d runs, %v, after %s", len(all), err, time.Since(begun))
			}
		}
		f.busy.mu.Lock()
		for n := range maxHanging {
			f.busy.hanging[fmt.Sprint("other ", n)] = 1
		}
		f.busy.mu.Unlock()
		if _, err := f.List(t.Context()); !errors.Is(err, errTooMany) {
			t.Errorf("with too many that hang: %v", err)
		}
		close(hang)
		synctest.Wait()
	})
}

// TestGivenUp: lists whose callers wait no longer are made once, and to the end, for those that ask next (L7).
func TestGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const runs = 60
	for n := range runs {
		resultstest.Write(t, dir, fmt.Sprint(n), n, 1, resultstest.File)
	}
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.slow = time.Second
		var reads atomic.Int32
		f.hold = func(string) {
			if n := reads.Add(1); n > maxListed {
				t.Errorf("%d runs are being read", n)
			}
			time.Sleep(200 * time.Millisecond)
			reads.Add(-1)
		}
		for range maxReading {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if _, err := f.List(ctx); pawl.KindOf(err) != pawl.Unavailable {
				t.Error(err)
			}
			cancel()
		}
		if all, err := f.List(t.Context()); err != nil || len(all) != runs {
			t.Errorf("%d runs, %v", len(all), err)
		}
	})
}

// TestHangLater: what hangs once a run is known, in the middle of a file even, is waited for no longer than the
// listing of runs, which goes on meanwhile (L7).
func TestHangLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	resultstest.Write(t, dir, "a", 1, 3, resultstest.File)
	j := resultstest.Journal(t, dir, "b", 2, resultstest.File)
	defer j.Close()
	j.Changed(resultstest.View(2, controller.Running))
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r, err := f.Run("b"); r.State != Running; r, err = f.Run("b") { // its line is written by and by
		if err != nil {
			t.Fatal(err)
		}
	}
	_, follower, err := f.Follow("b", "")
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	a, _ := f.Run("a")
	reads := map[string]func() error{
		"summary":   func() error { _, err := f.Summary("a"); return err },
		"report":    func() error { _, err := f.Report("a"); return err },
		"config":    func() error { _, err := f.Config("a"); return err },
		"history":   func() error { return f.History(t.Context(), "a", func(*audit.Entry) error { return nil }) },
		"intervals": func() error { _, _, err := f.Intervals(t.Context(), &a, Query{Limit: 1}); return err },
		"follow":    func() error { _, _, err := f.Follow("b", ""); return err },
		"lines":     func() error { _, err := follower.Next(); return err },
		"abort":     func() error { _, err := f.Abort("b", journal.Request{Actor: "ada"}); return err },
	}
	hang, on := make(chan struct{}), atomic.Bool{}
	f.slow = 50 * time.Millisecond
	f.hold = func(string) {
		if on.Load() {
			<-hang
		}
	}
	if err := reads["report"](); err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	for name, read := range reads {
		if err := read(); pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("%s of a file that hangs: %v", name, err)
		}
	}
	f.slow = time.Minute
	if all, err := f.List(t.Context()); err != nil || len(all) != 2 || all[0].State == Damaged || all[1].State == Damaged {
		t.Errorf("the list: %+v, %v", all, err)
	}
	on.Store(false)
	close(hang)
	for f.deep.hangsIn("a") || f.deep.hangsIn("b") || f.aborts.hangsIn("b") {
		runtime.Gosched()
	}
	for name, read := range reads {
		if name == "lines" { // its follower is not used any more
			continue
		}
		if err := read(); err != nil {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
}

// TestAbortBesideHangs: a run is ended though as many reads as there may be hang, and an error tells what is full from what
// hangs (L7).
func TestAbortBesideHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	resultstest.Write(t, dir, "a", 1, 1, resultstest.File)
	j := resultstest.Journal(t, dir, "b", 2, resultstest.File)
	defer j.Close()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := range maxReading {
		for _, g := range []*gate{f.busy, f.deep} { // as reads that hang
			if err := g.enter(t.Context(), fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r, err := f.Abort("b", journal.Request{Actor: "ada"}); err != nil || r.Requested == nil || r.Requested.Actor != "ada" {
		t.Errorf("%+v, %v", r, err)
	}
	f.slow = 20 * time.Millisecond
	if _, err := f.Config("a"); pawl.KindOf(err) != pawl.Unavailable || !strings.HasPrefix(err.Error(), "earlier reads") {
		t.Errorf("a read without a place: %v", err)
	}
}

// TestFault: a read that panics is an error of its caller, and its place is free again.
func TestFault(t *testing.T) {
	t.Parallel()
	f, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = inTime(t.Context(), f, f.deep, "a", func(*progress) (int, error) { panic("a fault") })
	if pawl.KindOf(err) != pawl.Internal || !strings.Contains(err.Error(), "a fault") {
		t.Error(err)
	}
	if f.deep.total != 0 {
		t.Errorf("%d reads go on", f.deep.total)
	}
}

// TestSlowFolder: a list that takes long, as its runs are many or large, and goes on is waited for, and so are the lines
// of a run and the intervals of an agent; those before a page are read no longer than their caller waits (L7).
func TestSlowFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n, name := range []string{"a", "b", "c"} {
		resultstest.Write(t, dir, name, n, 1, resultstest.File)
	}
	j := resultstest.Journal(t, dir, "d", 4, resultstest.File)
	defer j.Close()
	j.Changed(resultstest.View(4, controller.Running))
	resultstest.Record(t, j, filepath.Join(dir, "records"), 1, 0, 3)
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.hold = func(string) { time.Sleep(f.slow * 2 / 3) }
		if all, err := f.List(t.Context()); err != nil || len(all) != 4 {
			t.Errorf("a list that goes on: %d runs, %v", len(all), err)
		}
	})
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r, err := f.Run("d"); r.State != Running; r, err = f.Run("d") { // its line is written by and by
		if err != nil {
			t.Fatal(err)
		}
	}
	_, follower, err := f.Follow("d", "node-2")
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	for name, read := range map[string]func(*progress) error{
		"lines": func(p *progress) error {
			_, err := follower.read(p, func(journal.Line) error { return nil })
			return err
		},
		"to last":   follower.toLast,
		"intervals": func(p *progress) error { follower.apart = 0; _, err := follower.intervals(p, &Piece{}); return err },
	} {
		p := &progress{}
		if err := errors.Join(follower.reader.From(0), follower.records.From(0, p.passed), read(p)); err != nil || p.last.IsZero() {
			t.Errorf("%s: no progress is noted, %v", name, err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	page := &pageRead{ctx: over, at: &progress{}}
	if err := follower.records.From(1, page.goOn); !errors.Is(err, context.Canceled) || page.at.last.IsZero() {
		t.Errorf("a page of intervals whose caller is gone: %v", err)
	}
}

// TestSlow: what takes long and goes on is waited for.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &Folder{slow: time.Second, deep: newGate()}
		n, err := inTime(t.Context(), f, f.deep, "a", func(p *progress) (n int, err error) {
			for range 4 {
				time.Sleep(f.slow * 2 / 3)
				p.made()
				n++
			}
			return n, nil
		})
		if err != nil || n != 4 {
			t.Errorf("what goes on is given up: %v", err)
		}
	})
}
