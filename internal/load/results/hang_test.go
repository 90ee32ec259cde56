package results

import (
	"errors"
	"path/filepath"
	"strings"
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
	if _, err := f.List(); err != nil {
		t.Errorf("the list: %v", err)
	}
	for range 2 { // of which one hangs, and the other does not begin
		if err := reads["config"](); pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("one more: %v", err)
		}
	}
	if len(f.deep) != maxReading {
		t.Errorf("%d reads hang, want %d", len(f.deep), maxReading)
	}
	on.Store(false)
	close(hang)
	f.slow = time.Minute
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
	for range maxReading {
		f.busy <- struct{}{} // as reads that hang
		f.deep <- struct{}{}
	}
	if r, err := f.Abort("b", journal.Request{Actor: "ada"}); err != nil || r.Requested == nil || r.Requested.Actor != "ada" {
		t.Errorf("%+v, %v", r, err)
	}
	f.slow = 20 * time.Millisecond
	if _, err := f.Config("a"); pawl.KindOf(err) != pawl.Unavailable || !strings.HasPrefix(err.Error(), "8 earlier reads") {
		t.Errorf("a read without a slot: %v", err)
	}
	for range maxReading {
		<-f.busy
		<-f.deep
	}
}

// TestFault: a read that panics is an error of its caller, and its slot is free again.
func TestFault(t *testing.T) {
	t.Parallel()
	f, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = inTime(f, f.deep, func(*progress) (int, error) { panic("a fault") })
	if pawl.KindOf(err) != pawl.Internal || !strings.Contains(err.Error(), "a fault") {
		t.Error(err)
	}
	for range maxReading {
		f.deep <- struct{}{}
	}
}

// TestSlowFolder: a list that takes long, as its runs are many or large, and goes on is waited for, and so are the lines
// of a run and the intervals of an agent (L7).
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
		if all, err := f.List(); err != nil || len(all) != 4 {
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
		if err := errors.Join(follower.reader.From(0), follower.records.From(0), read(p)); err != nil || p.last.Load() == nil {
			t.Errorf("%s: no progress is noted, %v", name, err)
		}
	}
}

// TestSlow: what takes long and goes on is waited for.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &Folder{slow: time.Second, deep: make(chan struct{}, 1)}
		n, err := inTime(f, f.deep, func(p *progress) (n int, err error) {
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
