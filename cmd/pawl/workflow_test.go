package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadVersions runs command lines about registered workflows that are wrong:
// each is told what, exactly as its golden file has it.
func TestBadVersions(t *testing.T) {
	t.Parallel()
	const (
		good = "testdata/badcommands/good.yaml"
		id   = "j_019a3c7e5b7a7c1d8000000040a1b2c3"
	)
	for name, args := range map[string][]string{
		"workflow-unknown-verb":     {"workflow", "regsiter", good},
		"workflow-register-nothing": {"workflow", "register"},
		"workflow-register-bad":     {"workflow", "register", good, "testdata/badcommands/bad.yaml"},
		"workflow-show-unknown":     {"workflow", "show", "nightly"},
		"workflow-show-not-a-name":  {"workflow", "show", "a b"},
		"workflow-show-file":        {"workflow", "show", good},
		"workflow-versions-version": {"workflow", "versions", "nightly@3"},
		"workflow-list-bad-output":  {"workflow", "list", "-o", "jsno"},
		"submit-unknown-name":       {"submit", "nightly"},
		"submit-bad-version":        {"submit", "nightly@0"},
		"run-name":                  {"run", "nightly"},
		"plan-against-what":         {"plan", good, "--against", "runing"},
		"plan-against-mermaid":      {"plan", good, "--against", "running", "-o", "mermaid"},
		"move-nowhere":              {"job", "move", id},
		"move-negative":             {"job", "move", id, "--to", "-1"},
		"move-to-a-name":            {"job", "move", id, "--to", "nightly@3"},
		"move-unknown":              {"job", "move", id, "--to", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"PAWL_DATABASE": filepath.Join(t.TempDir(), "pawl.db")}
			makeDatabase(t, env)
			code, _, stderr := here(env, args...)
			if code == 0 || !strings.HasPrefix(stderr, "error: ") {
				t.Errorf("exit code %d", code)
			}
			golden(t, "badcommands/"+name+".golden", fmt.Sprintf("$ pawl %s\n%sexit %d\n", strings.Join(args, " "), stderr, code))
		})
	}
}
