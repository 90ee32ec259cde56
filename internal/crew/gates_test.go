package crew

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestConfig: a configuration is read as a whole or refused with the place and the way out.
func TestConfig(t *testing.T) {
	t.Parallel()
	got, err := ParseConfig(ConfigFile, []byte(`
setup: {run: npm ci}
gates:
  - {name: build, run: go build ./...}
  - {name: review, run: ./review, timeout: 1m, advisory: true}
merge: merge
timeouts: {stale: 1m}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{Setup: &Command{"npm ci", 10 * time.Minute}, Approval: ByPerson, Strategy: Merge, Forge: NoForge, Limits: Limits{Stale: time.Minute},
		Gates: []Gate{{Name: "build", Command: Command{"go build ./...", 10 * time.Minute}}, {Name: "review", Command: Command{"./review", time.Minute}, Advisory: true}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for source, want := range map[string]string{
		"":                                              "the file is empty",
		"gates: [{name: a}]":                            "gates[0]",
		"gates: [{name: A B, run: x}]":                  "gates[0].name",
		"gates: [{name: ../x, run: x}]":                 "gates[0].name",
		"gates: [{name: a, run: x, tmeout: 1m}]":        "did you mean",
		"gates: [{name: a, run: x, timeout: 0s}]":       "out of range",
		"gates: [{name: a, run: x}, {name: a, run: y}]": "another gate",
		"merge: rebase":                                 "not one of squash, merge",
		"timeouts: {dead: 5}":                           "unit",
		"setup: make":                                   "setup",
	} {
		if _, err := ParseConfig(ConfigFile, []byte(source)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), ConfigFile+":") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestGates: what is submitted has to pass the gates that its target has, whatever the member has made of
// them, before it is approved; a tree that has passed is not tested again (C12).
func TestGates(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.detach()
	log := filepath.Join(t.TempDir(), "log")
	count := func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "\n")
	}
	c.configure(fmt.Sprintf(`gates:
  - {name: advice, run: 'echo "$PAWL_WORKER $PAWL_GATE" >>%s; exit 3', advisory: true}
  - {name: test, run: 'echo looking; test -e good.txt'}
  - {name: never, run: 'test -e good.txt'}`, log))
	tree := c.begun(Task{ID: "t1", Target: "main"})
	c.write(tree, "bad.txt", "x\n")
	c.write(tree, ConfigFile, "gates: []\n") // its own word does not count
	c.estate.commit(tree, "work")
	if _, err := c.Check(ctx, "auth"); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("the gates for what is not submitted: %v", err)
	}
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	c.refuses("have not run")(c.Approve(ctx, "auth", "", ann))
	checks, err := c.Check(ctx, "auth")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range checks.List {
		got = append(got, strings.TrimSpace(fmt.Sprintln(one.Gate, one.State, one.Reason)))
	}
	if diff := cmp.Diff([]string{"advice failed it has ended with code 3", "test failed it has ended with code 1: looking"}, got); diff != "" {
		t.Error(diff)
	}
	var refused *GateError
	if _, err := c.Approve(ctx, "auth", "", ann); !errors.As(err, &refused) || refused.Gate != "test" {
		t.Errorf("approved: %v", err)
	}
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", ann))
	c.write(tree, "good.txt", "x\n")
	c.estate.commit(tree, "better")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	c.refuses("have not run")(c.Approve(ctx, "auth", "", ann))
	for range 2 {
		if checks, err := c.Check(ctx, "auth"); err != nil || checks.Refusal() != nil || len(checks.List) != 3 {
			t.Errorf("the gates: %+v, %v", checks, err)
		}
	}
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", ann))
	c.enqueue("auth", 0)
	if got := c.next(c.merger()); got != "auth landed" {
		t.Error(got)
	}
	if n := count(); n != 2 { // the tree that lands is the one that has passed
		t.Errorf("the gates ran %d times", n)
	}
}

// TestChangedGates: results count for the gates that gave them, and a configuration that cannot be read
// lets nothing through (C12).
func TestChangedGates(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.detach()
	c.configure("gates: [{name: test, run: 'true'}]")
	c.write(c.begun(Task{ID: "t1", Target: "main"}), "a.txt", "x\n")
	c.estate.commit(c.worktreeOf("auth", "t1", 1), "work")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	if _, err := c.Check(ctx, "auth"); err != nil {
		t.Fatal(err)
	}
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", ann))
	c.enqueue("auth", 0)
	c.configure("gates: [{name: test")
	if _, err := c.merger().Next(ctx, "main"); err == nil || !strings.Contains(err.Error(), ConfigFile+" of ") {
		t.Errorf("a configuration that cannot be read: %v", err)
	}
	c.configure("gates: [{name: test, run: 'false'}]")
	if got := c.next(c.merger()); got != "auth gate_failed" {
		t.Error(got)
	}
}

// TestWhatGatesLeave: what a gate has left running is ended with it, and what a killed one has left, before
// the next (C12).
func TestWhatGatesLeave(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.detach()
	pid := filepath.Join(t.TempDir(), "pid")
	c.configure("gates: [{name: test, run: 'setsid sleep 1000 & echo $! >" + pid + "; exit 75'}]")
	c.write(c.begun(Task{ID: "t1", Target: "main"}), "a.txt", "x\n")
	c.estate.commit(c.worktreeOf("auth", "t1", 1), "work")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	checks, err := c.Check(ctx, "auth")
	if err != nil || pawl.KindOf(checks.Refusal().err()) != pawl.Unavailable {
		t.Errorf("the gates: %+v, %v", checks, err)
	}
	sleeper, err := strconv.Atoi(strings.TrimSpace(string(read(t, pid))))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { return syscall.Kill(sleeper, 0) != nil }) // it is killed, and reaped by whoever has it then
	if left, err := os.ReadDir(filepath.Join(c.trees, ".gates")); err != nil || len(left) > 0 {
		t.Errorf("left of gates: %v, %v", left, err)
	}
}
