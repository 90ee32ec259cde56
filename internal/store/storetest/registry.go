package storetest

import (
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var registryTests = []test{
	{name: "Registry/Versions", run: versions},
	{name: "Registry/Newest", run: newestVersions},
	{name: "Registry/Once", run: versionOnce},
	{name: "Registry/Racers", run: versionRacers},
	{name: "Registry/Empty", run: emptyRegistry},
}

// register stores a version and returns it.
func (e *env) register(workspace, name string, version int) *pawl.Version {
	e.Helper()
	v := &pawl.Version{Workspace: workspace, Name: name, Version: version, Definition: 1<<62 + rowkey.Definition(version), Dir: "/srv/" + decimal(int64(version)), At: e.now(),
		Actor: "someone", Reason: "because"}
	e.ok(e.tryRegister(v))
	return v
}

func (e *env) tryRegister(v *pawl.Version) error {
	return e.try(e.st, &store.Query{}, func(_ *store.Facts, b *Batch) { b.Versions = append(b.Versions, v) })
}

// versions: newest first, and each by its number. The tenth is newer than the
// ninth.
func versions(e *env) {
	var want []*pawl.Version
	for version := range 10 {
		want = append([]*pawl.Version{e.register("w", "flow", version+1)}, want...)
	}
	e.register("other", "flow", 11)
	e.register("w", "flow2", 12)
	n := pawl.WorkflowName{Workspace: "w", Name: "flow"}
	got, err := e.st.Registered(e.ctx, n, 0, 0)
	e.ok(err)
	e.diff("versions", want, got)
	got, err = e.st.Registered(e.ctx, n, 8, 3)
	e.ok(err)
	e.diff("a page", want[3:6], got)
	for version, want := range map[int]*pawl.Version{0: want[0], 10: want[0], 9: want[1], 1: want[9]} {
		got, err := e.st.RegisteredVersion(e.ctx, n, version)
		e.ok(err)
		e.diff("version "+decimal(int64(version)), want, got)
	}
	if _, err := e.st.RegisteredVersion(e.ctx, n, 11); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("version 11: error %v, want ErrNotFound", err)
	}
}

// newestVersions: of each name of a workspace, by name (bytes), in the list; of the requested
// names in a transaction.
func newestVersions(e *env) {
	e.register("w", "b", 1)
	lower, upper := e.register("w", "a", 1), e.register("w", "Z", 3)
	newest := e.register("w", "b", 2)
	other := e.register("other", "b", 5)
	got, err := e.st.Workflows(e.ctx, "w", pawl.WorkflowName{}, 0)
	e.ok(err)
	e.diff("of a workspace", []*pawl.Version{upper, lower, newest}, got)
	names := func(v ...*pawl.Version) map[pawl.WorkflowName]*pawl.Version {
		m := map[pawl.WorkflowName]*pawl.Version{}
		for _, v := range v {
			m[pawl.WorkflowName{Workspace: v.Workspace, Name: v.Name}] = v
		}
		return m
	}
	f := e.see(&store.Query{Names: []pawl.WorkflowName{{Workspace: "w", Name: "b"}, {Workspace: "w", Name: "c"}, {Workspace: "other", Name: "b"}}})
	e.diff("facts", names(newest, other), f.Versions)
}

// versionOnce: a version never changes; other changes of the same transaction are not written
// either.
func versionOnce(e *env) {
	v := e.register("w", "flow", 1)
	again := *v
	again.Definition++
	var m made
	err := e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) {
		m = e.build(f.Now, 1, b, nil)
		b.Versions = append(b.Versions, &again)
	})
	if !errors.Is(err, store.ErrStale) {
		e.Errorf("error %v, want ErrStale", err)
	}
	e.absent(m.key())
	got, err := e.st.RegisteredVersion(e.ctx, pawl.WorkflowName{Workspace: "w", Name: "flow"}, 1)
	e.ok(err)
	e.diff("version", v, got)
}

// versionRacers: of many transactions that register the same version, one succeeds.
func versionRacers(e *env) {
	const n = 8
	errs := make(chan error, n) // one of each
	for i := range n {
		go func() {
			errs <- e.tryRegister(&pawl.Version{Workspace: "w", Name: "flow", Version: 1, Definition: rowkey.Definition(i)})
		}()
	}
	won := 0
	for range n {
		if err := <-errs; err == nil {
			won++
		} else if !errors.Is(err, store.ErrStale) {
			e.Errorf("error %v, want ErrStale", err)
		}
	}
	if won != 1 {
		e.Errorf("%d registered the version, want one", won)
	}
}

func emptyRegistry(e *env) {
	e.register("w", "flow", 1)
	got, err := e.st.Workflows(e.ctx, "nobody's", pawl.WorkflowName{}, 0)
	e.ok(err)
	versions, err := e.st.Registered(e.ctx, pawl.WorkflowName{Workspace: "nobody's", Name: "flow"}, 0, 0)
	e.ok(err)
	if len(got)+len(versions) != 0 {
		e.Errorf("workflows %v and versions %v in a workspace that has none", got, versions)
	}
}
