package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

// raw runs statements on a file, as another program would.
func raw(t *testing.T, path, statements string) {
	t.Helper()
	c, err := zombie.OpenConn(path, zombie.OpenReadWrite|zombie.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := sqlitex.ExecuteScript(c, statements, nil); err != nil {
		t.Fatal(err)
	}
}

// What cannot be opened is refused with one error that says why (J10).
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, older, newer := filepath.Join(dir, "foreign"), filepath.Join(dir, "older"), filepath.Join(dir, "newer")
	raw(t, foreign, "CREATE TABLE t (a)")
	open(t, sqlite.Config{Path: newer}).Close()
	db := open(t, sqlite.Config{Path: older, AnyVersion: true})
	migrate(t, db, 1)
	db.Close()
	raw(t, newer, "PRAGMA user_version = 99")
	for name, tt := range map[string]struct {
		cfg  sqlite.Config
		kind pawl.Kind
		want string
	}{
		"no path":        {sqlite.Config{}, pawl.Invalid, "database path is empty"},
		"synchronous":    {sqlite.Config{Path: ":memory:", Synchronous: "off"}, pawl.Invalid, `synchronous "off": want full or normal`},
		"no folder":      {sqlite.Config{Path: filepath.Join(dir, "no", "x.db")}, pawl.Unavailable, "cannot be opened"},
		"not a database": {sqlite.Config{Path: text}, pawl.Conflict, "not a SQLite database"},
		"foreign":        {sqlite.Config{Path: foreign}, pawl.Conflict, "another program"},
		"older":          {sqlite.Config{Path: older}, pawl.Conflict, "schema version 1, and this program needs 12"},
		"newer":          {sqlite.Config{Path: newer}, pawl.Conflict, "schema version 99, made by a newer pawl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := sqlite.Open(t.Context(), tt.cfg)
			if err == nil {
				db.Close()
				t.Fatal("it was opened")
			}
			if pawl.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v of kind %v, want %q of kind %v", err, pawl.KindOf(err), tt.want, tt.kind)
			}
			var e *pawl.Error
			if name == "older" && (!errors.As(err, &e) || !strings.Contains(e.Hint, "pawl migrate up")) {
				t.Errorf("error %#v has no hint to migrate", err)
			}
		})
	}
}

// AnyVersion opens what has to be migrated, and brings nothing up by itself.
func TestOpenAnyVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	db := open(t, sqlite.Config{Path: path, AnyVersion: true})
	defer db.Close()
	current, newest, err := db.Version(t.Context())
	if err != nil || current != 0 || newest < 1 {
		t.Fatalf("version %d of %d, %v; want 0", current, newest, err)
	}
	if err := db.Migrate(t.Context(), newest); err != nil {
		t.Fatal(err)
	}
	open(t, sqlite.Config{Path: path}).Close()
}

// Many that open a new file at once all find it whole.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := filepath.Join(t.TempDir(), "pawl.db")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { openOnce(t, path) })
		}
		wg.Wait()
	}
}

func openOnce(t *testing.T, path string) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	if _, err := db.Jobs(t.Context(), store.JobFilter{}); err != nil {
		t.Error(err)
	}
}

// add stores jobs of one step each, and returns them.
func add(t *testing.T, db store.Store, n int) (jobs []*pawl.Job) {
	t.Helper()
	mint := storetest.NewMint()
	err := db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		for range n {
			j := &pawl.Job{ID: mint.ID(f.Now), WorkerCount: 1}
			b.AddJob(j)
			b.AddStep(j, &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}})
			jobs = append(jobs, j)
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// A row that cannot be decoded is logged and left out, and harms no other.
func TestUndecodableRows(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"uuid":    "UPDATE job SET uuid = x'00' WHERE id = ",
		"foreign": "UPDATE job SET uuid = (SELECT uuid FROM job ORDER BY id LIMIT 1) WHERE id = ",
		"head":    "UPDATE job SET head = x'' WHERE id = ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			path := filepath.Join(t.TempDir(), "pawl.db")
			db := open(t, sqlite.Config{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
			defer db.Close()
			jobs := add(t, db, 3)
			raw(t, path, damage+decimal(int64(jobs[1].Key())))
			var got []rowkey.Job
			err := db.Do(t.Context(), &store.Query{Jobs: []rowkey.Job{jobs[0].Key(), jobs[1].Key(), jobs[2].Key()}},
				func(f *store.Facts) (*store.Changes, error) {
					for _, j := range jobs {
						if f.Jobs[j.Key()] != nil {
							got = append(got, j.Key())
						}
					}
					return nil, nil
				})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]rowkey.Job{jobs[0].Key(), jobs[2].Key()}, got); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
			if listed, err := db.Jobs(t.Context(), store.JobFilter{}); err != nil || len(listed) != 2 {
				t.Errorf("%d jobs listed, %v; want 2", len(listed), err)
			}
			if !strings.Contains(log.String(), "cannot be decoded") {
				t.Errorf("log %q says nothing of the row", log.String())
			}
		})
	}
}

// The keys of steps that wait for a slot come from an index, and their rows from the cache or the
// table: a row that cannot be decoded is left out there, too.
func TestUndecodableWaitingStep(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	db := open(t, sqlite.Config{Path: path, Log: slog.New(slog.DiscardHandler)})
	defer db.Close()
	var steps []pawl.StepKey
	err := db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		j := &pawl.Job{ID: storetest.NewMint().ID(f.Now), Workspace: "default", Workflow: "w"}
		b.AddJob(j)
		for node := range 3 {
			s := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(node+1, 0)}, Mark: pawl.Waiting}
			b.AddStep(j, s)
			steps = append(steps, s.StepKey)
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	see := func(want ...pawl.StepKey) {
		t.Helper()
		q := &store.Query{Waiting: []store.JobLimit{{Job: steps[0].Job, Limit: 5}}}
		err := db.Do(t.Context(), q, func(f *store.Facts) (*store.Changes, error) {
			if diff := cmp.Diff(want, f.Waiting[steps[0].Job]); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
			if len(f.Steps) != len(want) {
				t.Errorf("%d steps, want %d", len(f.Steps), len(want))
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	see(steps...)
	raw(t, path, "UPDATE step SET head = x'' WHERE ord = "+decimal(int64(steps[1].Ord)))
	see(steps[0], steps[2])
}

// "Busy" reaches nobody while another holds the file for less than patience,
// and the wait ends with its context.
func TestBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	db, other := open(t, sqlite.Config{Path: path}), open(t, sqlite.Config{Path: path})
	defer db.Close()
	defer other.Close()
	holding, release, written := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		written <- other.Do(context.Background(), &store.Query{}, func(*store.Facts) (*store.Changes, error) {
			close(holding)
			<-release
			return nil, nil
		})
	}()
	<-holding
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := db.Do(ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) { return nil, nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the end of the context", err)
	}
	if _, err := db.Jobs(t.Context(), store.JobFilter{}); err != nil {
		t.Errorf("a reader met a writer: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	add(t, db, 1)
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// A full disk is said to be full, nothing is written, and once there is room
// the same handle goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	db := open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	defer db.Close()
	limit := func(pages string) {
		err := db.Raw(t.Context(), func(c *zombie.Conn) error {
			return sqlitex.ExecuteTransient(c, "PRAGMA max_page_count = "+pages, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit("1") // SQLite raises it to what the file has
	err := db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		b.AddJob(&pawl.Job{ID: storetest.NewMint().ID(f.Now), Description: strings.Repeat("x", 1<<20)})
		return &b.Changes, nil
	})
	if pawl.KindOf(err) != pawl.Unavailable || !strings.Contains(err.Error(), "the disk is full") || errors.Is(err, store.ErrUnknown) {
		t.Errorf("error %v, want that the disk is full", err)
	}
	limit("1000000")
	add(t, db, 1)
	if jobs, err := db.Jobs(t.Context(), store.JobFilter{}); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v; want the one that was written", len(jobs), err)
	}
}

// No goroutine outlives a closed database.
func TestNoLeaks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	db := open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	add(t, db, 1)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan error)
	go func() { heard <- db.Listen(ctx, func(store.Hint) {}) }()
	db.Wake(1, store.TopicWork)
	if _, err := db.Jobs(ctx, store.JobFilter{}); err != nil {
		t.Error(err)
	}
	cancel()
	<-heard
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
