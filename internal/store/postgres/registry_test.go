package postgres

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

func TestRegistered(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	version := func(workspace, name string, n int) *pawl.Version {
		return &pawl.Version{Workspace: workspace, Name: name, Version: n, Definition: rowkey.Definition(-n), At: 5, Actor: "who", Reason: "why\x00"}
	}
	a1, a2, b1, other := version("ws", "a", 1), version("ws", "a", 2), version("ws", "B", 1), version("other", "a", 1)
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { d.Versions = []*pawl.Version{a2, a1, b1, other} })
	err := try(db, &store.Query{}, func(_ *store.Facts, d *draft) { d.Versions = []*pawl.Version{version("ws", "a", 3), a2} })
	if !errors.Is(err, store.ErrStale) {
		t.Errorf("a version that is there already: %v, want ErrStale", err)
	}
	lists := map[string]struct {
		workspace, name string
		want            []*pawl.Version
	}{
		"versions":           {"ws", "a", []*pawl.Version{a2, a1}},
		"newest of each":     {"ws", "", []*pawl.Version{b1, a2}},
		"none":               {"ws", "x", nil},
		"of every workspace": {"", "", []*pawl.Version{b1, other, a2}},
	}
	for name, tt := range lists {
		got, err := db.Registered(t.Context(), pawl.WorkflowName{Workspace: tt.workspace, Name: tt.name}, 0, 0)
		if tt.name == "" {
			got, err = db.Workflows(t.Context(), tt.workspace, pawl.WorkflowName{}, 0)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	a := pawl.WorkflowName{Workspace: "ws", Name: "a"}
	for n, want := range map[int]*pawl.Version{0: a2, 1: a1, 2: a2} {
		if got, err := db.RegisteredVersion(t.Context(), a, n); err != nil || !cmp.Equal(got, want) {
			t.Errorf("version %d: %v, %v", n, got, err)
		}
	}
	if _, err := db.RegisteredVersion(t.Context(), a, 3); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("version 3: %v", err)
	}
	do(t, db, &store.Query{Names: []pawl.WorkflowName{a, a, {Workspace: "ws", Name: "x"}}}, func(f *store.Facts, _ *draft) {
		if diff := cmp.Diff(map[pawl.WorkflowName]*pawl.Version{a: a2}, f.Versions); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
	})
}

// TestQuotas are set, set anew and taken away.
func TestQuotas(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	quota := func(workspace, name string, slots int) *pawl.Quota {
		return &pawl.Quota{Workspace: workspace, Name: name, Slots: slots, At: int64(slots) + 9, Actor: "who", Reason: "why"}
	}
	set := func(list ...*pawl.Quota) {
		t.Helper()
		do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { d.Quotas = list })
	}
	set(quota("ws", "queue/b", 3), quota("ws", "depth/0", 0), quota("other", "queue/a", 5), quota("ws", "gone", -1))
	set(quota("ws", "queue/b", 4), quota("ws", "queue/a", 7))
	set(quota("ws", "queue/a", -1), quota("other", "depth/0", -1))
	for workspace, want := range map[string][]*pawl.Quota{
		"ws": {quota("ws", "depth/0", 0), quota("ws", "queue/b", 4)},
		"":   {quota("ws", "depth/0", 0), quota("other", "queue/a", 5), quota("ws", "queue/b", 4)},
		"no": nil,
	} {
		got, err := db.Quotas(t.Context(), workspace, pawl.WorkflowName{}, 0)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", workspace, err, diff)
		}
	}
}

// TestSignals: the ones that nobody took, in order and not too many; each is
// taken once.
func TestSignals(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	signal := func(job rowkey.Job, seq int64) *pawl.Signal {
		return &pawl.Signal{Job: job, Seq: seq, Name: "n", Data: json.RawMessage(`{"a" : 1}`), At: 4, Actor: "who"}
	}
	var all []*pawl.Signal
	for seq := range int64(store.MaxSignals + 2) {
		all = append(all, signal(1, seq+1))
	}
	bare := &pawl.Signal{Job: 2, Seq: 9}
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { d.NewSignals = append(all[:len(all):len(all)], bare) })
	take := func(list ...*pawl.Signal) error {
		return try(db, &store.Query{}, func(_ *store.Facts, d *draft) { d.Taken = list })
	}
	all[0].Taken = pawl.MakeOrd(3, 0)
	if err := take(all[0]); err != nil {
		t.Fatal(err)
	}
	if err := take(all[0]); !errors.Is(err, store.ErrStale) {
		t.Errorf("taken twice: %v, want ErrStale", err)
	}
	if err := take(signal(7, 7)); !errors.Is(err, store.ErrStale) {
		t.Errorf("one that is not there: %v, want ErrStale", err)
	}
	err := try(db, &store.Query{}, func(_ *store.Facts, d *draft) { d.NewSignals = []*pawl.Signal{bare} })
	if !errors.Is(err, store.ErrStale) {
		t.Errorf("a second one: %v, want ErrStale", err)
	}
	do(t, db, &store.Query{Signals: []rowkey.Job{2, 1, 1, 3}}, func(f *store.Facts, _ *draft) {
		want := map[rowkey.Job][]*pawl.Signal{1: all[1 : store.MaxSignals+1], 2: {bare}}
		if diff := cmp.Diff(want, f.Signals); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
	})
	got, err := db.Signals(t.Context(), 1)
	if err != nil || len(got) != store.MaxSignals || got[0].Seq != 2 || got[0].Data != nil || got[0].Name != "n" {
		t.Errorf("view: %v, %+v", err, got)
	}
}
