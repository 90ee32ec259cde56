package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// Beats are of the store's clock, however they are kept (J9).
func TestBeatsAreOfTheClock(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"file": filepath.Join(t.TempDir(), "pawl.db"), "memory": ":memory:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clock atomic.Int64
			clock.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
			db := open(t, sqlite.Config{Path: path, Clock: func() time.Time { return time.UnixMicro(clock.Load()) }})
			defer db.Close()
			w := &pawl.Worker{ID: storetest.NewMint().ID(clock.Load())}
			err := db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
				b := storetest.NewBatch(f.Now)
				b.AddWorker(w)
				return &b.Changes, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			release, err := db.Hold(t.Context(), "worker/"+decimal(int64(w.Key())), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			for i, step := range []struct {
				pass time.Duration
				beat bool
				want time.Duration // how old the last beat is
			}{{0, false, 0}, {7 * time.Second, false, 7 * time.Second}, {0, true, 0}, {6 * time.Second, false, 6 * time.Second}} {
				clock.Add(step.pass.Microseconds())
				if step.beat {
					if _, err := db.Beat(t.Context(), link.Pulse{Worker: w.Key()}); err != nil {
						t.Fatal(err)
					}
				}
				r, err := db.Observe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want := []health.Sighting{{Worker: w.Key(), Beat: clock.Load() - step.want.Microseconds(), Lock: health.Held}}
				if diff := cmp.Diff(want, r.Workers); diff != "" || r.Now != clock.Load() {
					t.Errorf("step %d, at %d, want %d (-want +got):\n%s", i, r.Now, clock.Load(), diff)
				}
			}
		})
	}
}

// Lock files do not pile up: an owner removes its file when it releases the lock.
func TestLockFilesGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	db := open(t, sqlite.Config{Path: path})
	defer db.Close()
	for i := range int64(3) {
		release, err := db.Hold(t.Context(), "worker/"+decimal(i), []byte("note"))
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	files, err := os.ReadDir(path + ".locks")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "waiting.queue" { // all writers' own, and one alone
			t.Errorf("file %s is left", f.Name())
		}
	}
}

// What killed processes have left goes with the next name that is taken, once it is old; what a live process
// holds stays, though it has not beaten for as long, and so does what has just been left.
func TestLockFilesOfTheDead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	db := open(t, sqlite.Config{Path: path})
	defer db.Close()
	release, err := db.Hold(t.Context(), "alive", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{"dead": old, "alive": old, "fresh": time.Now()} {
		file := filepath.Join(path+".locks", name+".lock")
		f, err := os.OpenFile(file, os.O_CREATE, 0o600)
		if err == nil {
			err = errors.Join(f.Close(), os.Chtimes(file, at, at))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if release, err = db.Hold(t.Context(), "next", nil); err != nil {
		t.Fatal(err)
	}
	defer release()
	for name, want := range map[string]bool{"dead": false, "alive": true, "fresh": true, "next": true} {
		if _, err := os.Stat(filepath.Join(path+".locks", name+".lock")); (err == nil) != want {
			t.Errorf("the file of %s: %v, want it there: %t", name, err, want)
		}
	}
	var held *store.HeldError
	if _, err := db.Hold(t.Context(), "alive", nil); !errors.As(err, &held) {
		t.Errorf("a name that is held: %v", err)
	}
}

// Processes that know the file by different names meet.
func TestLinkedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "pawl.db"), filepath.Join(dir, "link.db")
	a := open(t, sqlite.Config{Path: path})
	defer a.Close()
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	b := open(t, sqlite.Config{Path: link})
	defer b.Close()
	release, err := a.Hold(t.Context(), "engine", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := b.Hold(t.Context(), "engine", nil); err == nil {
		t.Error("the name was taken twice")
	}
}
