package trail

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

func open(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// canceled stores a job of one step that was canceled.
func canceled(t *testing.T, s store.Store, mint *storetest.Mint) {
	t.Helper()
	at := pawl.Micros(time.Now())
	err := s.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(at)
		j, step := &pawl.Job{ID: mint.ID(at), Workspace: "default", Workflow: "flow"}, &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}}
		b.AddJob(j)
		b.AddStep(j, step)
		b.MoveStep(j, step, lifecycle.StepCancel)
		b.MoveJob(j, lifecycle.JobCancel)
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func export(t *testing.T, s store.Store) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Trails(t.Context(), 0, func(of store.TrailOf) error { return audit.WriteLines(&b, of.Entries) }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestVerifyExport: a whole export is well, and one that was changed is not (K6).
func TestVerifyExport(t *testing.T) {
	t.Parallel()
	s := open(t)
	canceled(t, s, storetest.NewMint())
	v, err := Verify(t.Context(), s, 0, nil)
	if err != nil || !v.OK || v.Entities != 2 || v.Entries == 0 {
		t.Fatalf("%+v, %v: want the trails of a job and a step", v, err)
	}
	text := export(t, s)
	lines := strings.SplitAfter(strings.TrimSpace(text), "\n")
	for _, tt := range []struct {
		name, text string
		ok         bool
		code       audit.Code
	}{
		{"whole", text, true, ""},
		{"without its first row", strings.Join(lines[1:], ""), false, audit.FaultGap},
		{"no row", lines[0] + "what is this\n", false, CodeLine},
	} {
		got := VerifyExport(strings.NewReader(tt.text))
		if got.OK != tt.ok || (got.Fault == nil) != tt.ok || got.Fault != nil && got.Fault.Code != tt.code {
			t.Errorf("%s: %v, %+v: want %v, %q", tt.name, got.OK, got.Fault, tt.ok, tt.code)
		}
		if tt.ok && (got.Entities != v.Entities || got.Entries != v.Entries) {
			t.Errorf("%s: %d entries of %d entities: want %d of %d", tt.name, got.Entries, got.Entities, v.Entries, v.Entities)
		}
	}
}

// TestCompare: what was added since is no difference, and what is missing is one (K6).
func TestCompare(t *testing.T) {
	t.Parallel()
	s, mint := open(t), storetest.NewMint()
	checkpoint := func() *CheckpointReader {
		c, err := Current(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.CheckpointReader
	}
	canceled(t, s, mint)
	before, again := checkpoint(), checkpoint()
	canceled(t, s, mint)
	after, later := checkpoint(), checkpoint()
	for _, tt := range []struct {
		name                     string
		old, new                 *CheckpointReader
		ok                       bool
		same, added, differences int64
	}{
		{"one was added", before, after, true, 1, 1, 0},
		{"one is missing", later, again, false, 1, 0, 1},
	} {
		var found []Difference
		r, err := Compare(t.Context(), &Comparer{Old: tt.old, New: tt.new}, func(d Difference) { found = append(found, d) })
		if err != nil {
			t.Fatal(err)
		}
		if r.OK != tt.ok || r.Same != tt.same || r.Added != tt.added || r.Count != tt.differences || len(found) != int(tt.differences) || len(r.Differences) != len(found) {
			t.Errorf("%s: %+v, and %d told", tt.name, r, len(found))
		}
	}
}

// closed remembers that it was closed.
type closed struct {
	*strings.Reader
	yes bool
}

func (c *closed) Close() error {
	c.yes = true
	return nil
}

// TestNoCheckpoint: a file that is none is closed, and named.
func TestNoCheckpoint(t *testing.T) {
	t.Parallel()
	f := &closed{Reader: strings.NewReader("name: nightly\n")}
	_, err := OpenCheckpoint(f, "nightly.yaml")
	if pawl.KindOf(err) != pawl.Invalid || err == nil || !strings.HasPrefix(err.Error(), "nightly.yaml: ") || !f.yes {
		t.Errorf("%v, closed: %v", err, f.yes)
	}
}
