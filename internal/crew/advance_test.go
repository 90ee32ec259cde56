package crew

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/lifecycle"
)

// TestAdvance: what needs no person is done: programs are started again, the gates run, and where they are
// enough work lands without anybody, or goes back with the reason, or is given up in the last round (C9,
// C12).
func TestAdvance(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	c.detach()
	c.configure("{approval: gates, gates: [{name: test, run: 'test -e good.txt'}]}")
	work := script(`echo x >"$PAWL_WORKER-$(date +%N).txt"; test "$PAWL_WORKER" = docs || test ! -e auth-*-2.txt; git rev-list --count "$PAWL_BASE..HEAD" | grep -q 1 && test "$PAWL_WORKER" = auth && echo x >good.txt; git add . && git commit -qm work`)
	v := &Advance{Crew: c.Crew, Land: true, By: Caller{Actor: "advance"}, Start: func(ctx context.Context, id string) error {
		_, err := c.Run(ctx, id, work, ann, nil)
		return err
	}}
	for _, id := range []string{"auth", "docs"} {
		c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, id, Task{ID: "t-" + id, Target: "main"}, ann))
		c.ok(lifecycle.MemberInReview)(c.Run(ctx, id, work, ann, nil))
	}
	for range 12 {
		if failed, err := v.Everyone(ctx); err != nil || len(failed) > 0 {
			t.Fatal(failed, err)
		}
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberCompleted { // its second round is good
		t.Errorf("auth: %s, %s", m.State, m.LastError)
	}
	m := check(t, c.Folder, "docs")
	if m.State != lifecycle.MemberFailed || m.LastError == "" {
		t.Errorf("docs: %s, %s", m.State, m.LastError)
	}
	if ended, err := m.Ended(m.Epoch); !ended || err == nil {
		t.Errorf("ended: %v, %v", ended, err)
	}
}

// TestAdvanceLeavesToPersons: by default the gates only inform; what cannot be run is tried again after a
// while, and what has failed is not (C12).
func TestAdvanceLeavesToPersons(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.detach()
	c.configure("gates: [{name: test, run: 'exit 1'}]")
	c.write(c.begun(Task{ID: "t1", Target: "main"}), "a.txt", "x\n")
	c.estate.commit(c.worktreeOf("auth", "t1", 1), "work")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	v := &Advance{Crew: c.Crew, Land: true, By: Caller{Actor: "advance"}}
	for i, want := range []bool{true, false, false} {
		if did, err := v.Member(ctx, "auth"); err != nil || did != want {
			t.Errorf("%d: %v, %v", i, did, err)
		}
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberInReview {
		t.Errorf("it is %s", m.State)
	}
}
