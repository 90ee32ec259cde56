package crew

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestFileOfAMember: the file has the fields of the format and no others, and what others have
// added survives a change (C2).
func TestFileOfAMember(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	if _, err := move(t.Context(), f, "auth", lifecycle.MemberSpawn); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.state("auth"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	changed, _ := got["state_changed_at"].(string)
	want := map[string]any{"worker_id": "auth", "state": "IDLE", "task_id": nil, "branch": nil, "assigned_at": nil,
		"state_changed_at": changed, "last_heartbeat": nil, "pid": 0.0, "attempt": 0.0, "max_attempts": 0.0, "last_error": nil,
		"pr_url": nil, "review_state": nil, "version": 1.0, "epoch": 1.0, "attention": nil}
	if diff := cmp.Diff(want, got); diff != "" || !strings.HasSuffix(changed, "Z") {
		t.Errorf("(-want +got):\n%s", diff)
	}
	added := strings.Replace(string(b), "{", `{"note": {"by": ["me"], "html": "<&>"}, "Worker_ID": 7,`, 1)
	if err := os.WriteFile(f.state("auth"), []byte(added), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := move(t.Context(), f, "auth", lifecycle.MemberAssign); err != nil {
		t.Fatal(err)
	}
	m := check(t, f, "auth")
	if got := string(m.others["note"]); len(m.others) != 2 || !json.Valid([]byte(got)) || !strings.Contains(got, `"me"`) {
		t.Errorf("the fields of others are %s", m.others)
	}
}

// TestAnEditedState: a state that was edited, removed or rolled back is not believed, and not
// overwritten (C2).
func TestAnEditedState(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	var files []string
	for _, event := range []machine.Event{lifecycle.MemberSpawn, lifecycle.MemberAssign, lifecycle.MemberStart} {
		if _, err := move(t.Context(), f, "auth", event); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(f.state("auth"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(b))
	}
	for name, state := range map[string]string{
		"edited":      strings.Replace(files[2], `"WORKING"`, `"APPROVED"`, 1),
		"rolled back": files[0],
		"not JSON":    "{",
		"of another":  strings.Replace(files[2], `"auth"`, `"docs"`, 1),
	} {
		if err := os.WriteFile(f.state("auth"), []byte(state), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := move(t.Context(), f, "auth", lifecycle.MemberAttention)
		var tampered *TamperedError
		if !errors.As(err, &tampered) || tampered.ID != "auth" {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(f.state("auth")); err != nil || string(b) != state {
			t.Errorf("%s: the file was replaced: %v", name, err)
		}
	}
	if err := os.WriteFile(f.state("auth"), []byte(files[2]), 0o644); err != nil {
		t.Fatal(err)
	}
	if m, err := move(t.Context(), f, "auth", lifecycle.MemberAttention); err != nil || m.Version != 4 {
		t.Errorf("repaired: %+v, %v", m, err)
	}
}

// TestIllegalMoves: what the table does not have changes nothing, and the error names what it
// allows (C1).
func TestIllegalMoves(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	if _, err := move(t.Context(), f, "auth", lifecycle.MemberSpawn); err != nil {
		t.Fatal(err)
	}
	_, err := move(t.Context(), f, "auth", lifecycle.MemberSubmit)
	if pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "(allowed: assign_task)") {
		t.Errorf("submit in IDLE: %v", err)
	}
	if _, err = move(t.Context(), f, "auth", lifecycle.MemberSpawn); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("spawned twice: %v", err)
	}
	if _, err = move(t.Context(), f, "docs", lifecycle.MemberAssign); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("a member that does not exist: %v", err)
	}
	if m := check(t, f, "auth"); m.Version != 1 {
		t.Errorf("version %d after refused moves", m.Version)
	}
	if ids, err := f.Members(); err != nil || cmp.Diff([]string{"auth"}, ids) != "" {
		t.Errorf("members %v, %v", ids, err)
	}
}

// TestIDs: ids are safe as names of files and in git refs (C2).
func TestIDs(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{"auth": true, "worker-auth-2": true, "": false, "Auth": false, "a_b": false, "-a": false, "a-": false,
		"a--b": false, "../a": false, "a/b": false, "a.lock": false, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a\n": false, "é": false} {
		if err := CheckID(id); (err == nil) != ok || err != nil && pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("member %q: %v", id, err)
		}
	}
	for id, ok := range map[string]bool{"skills-abc": true, "PROJ-12": true, "v1.2_x": true, "": false, "a..b": false, "a.": false, "a.lock": false, "a.LOCK": false,
		"a~1": false, "@{": false, "a b": false, ".a": false, "a/b": false, strings.Repeat("a", 65): false} {
		if err := CheckTask(id); (err == nil) != ok || err != nil && pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("task %q: %v", id, err)
		}
	}
}
