package spec_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// (S14) What a reload has to do: which services come, go or change, in which keys,
// and whether what runs is touched by it.
func TestDiff(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/good/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := func(id string, restart bool, keys ...string) spec.Difference {
		return spec.Difference{ID: id, What: spec.Changed, Keys: keys, Restart: restart}
	}
	for _, tt := range []struct {
		name, from, to string
		want           []spec.Difference
	}{
		{"nothing", "", "", nil},
		{"a comment", "name: everything", "name: everything # and nothing", nil},
		{"another way to write it", "needs: [db]", "needs: {db: ready}", nil},
		{"a default that is written out", "alive: {notify: true}\n", "alive: {notify: true, timeout: 30s}\n", nil},
		{"the name of the supervisor", "name: everything", "name: other", nil},
		{"added and removed", "  cache:\n", "  cash:\n", []spec.Difference{{ID: "cache", What: spec.Removed}, {ID: "cash", What: spec.Added}, changed("web", false, "needs")}},
		{"description", "Keeps the data.", "Keeps data.", []spec.Difference{changed("db", false, "description")}},
		{"command", "[./cache]", "[./cache, -v]", []spec.Difference{changed("cache", true, "command")}},
		{"run", "./migrate up", "./migrate down", []spec.Difference{changed("migrate", true, "run")}},
		{"dir", "dir: data", "dir: .", []spec.Difference{changed("db", true, "dir")}},
		{"env", "LEVEL: debug", "LEVEL: info", []spec.Difference{changed("db", true, "env")}},
		{"env of the file, under that of a service", "LEVEL: 3", "LEVEL: 4", []spec.Difference{
			changed("cache", true, "env"), changed("migrate", true, "env"), changed("probe_it", true, "env"), changed("web", true, "env"), changed("worker-2", true, "env")}},
		{"pass", "[TOKEN, AWS_*]", "[TOKEN]", []spec.Difference{changed("db", true, "pass")}},
		{"user", "user: postgres", "user: db", []spec.Difference{changed("db", true, "user")}},
		{"group", "group: 70", "group: 71", []spec.Difference{changed("db", true, "group")}},
		{"autostart", "autostart: false", "autostart: true", []spec.Difference{changed("cache", false, "autostart")}},
		{"needs", "db: ready", "db: started", []spec.Difference{changed("web", false, "needs")}},
		{"ready", "successes: 2", "successes: 3", []spec.Difference{changed("db", false, "ready")}},
		{"ready, a line that is printed once", "listening on", "listens on", []spec.Difference{changed("cache", true, "ready")}},
		{"ready by notify is new", `ready: {command: ["true"]}`, "ready: {notify: true}", []spec.Difference{changed("probe_it", true, "ready")}},
		{"ready by notify no more", "ready: {notify: true}", "ready: {tcp: 80}", []spec.Difference{changed("worker-2", false, "ready")}},
		{"ready is gone", "    ready: {command: [\"true\"]}\n", "", []spec.Difference{changed("probe_it", false, "ready")}},
		{"alive", "are you there?", "are you well?", []spec.Difference{changed("db", false, "alive")}},
		{"alive, the silence that the program was told", "1m30s", "1m31s", []spec.Difference{changed("worker-2", true, "alive")}},
		{"alive by notify is new", `{http: "https://localhost/"}`, "{notify: true}", []spec.Difference{changed("probe_it", true, "alive")}},
		{"start", "{timeout: 1m}", "{timeout: 2m}", []spec.Difference{changed("db", false, "start")}},
		{"restart", "window: 1h", "window: 2h", []spec.Difference{changed("db", false, "restart")}},
		{"restart, exit codes", "[78, 64, 78]", "[64]", []spec.Difference{changed("db", false, "restart")}},
		{"stop", "SIGQUIT", "KILL", []spec.Difference{changed("worker-2", false, "stop")}},
		{"log", "512KiB", "1MiB", []spec.Difference{changed("db", true, "log")}},
		{"limits", "nice: 5", "nice: 6", []spec.Difference{changed("db", true, "limits")}},
		{"several", "dir: data\n", "dir: other\n    autostart: false\n", []spec.Difference{changed("db", true, "dir", "autostart")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.from != "" && strings.Count(string(raw), tt.from) != 1 {
				t.Fatalf("%q is not there once", tt.from)
			}
			edited := strings.Replace(string(raw), tt.from, tt.to, 1)
			if tt.name == "added and removed" {
				edited = strings.Replace(edited, "cache: started", "cash: started", 1)
			}
			if diff := cmp.Diff(tt.want, spec.Diff(parse(t, string(raw)), parse(t, edited))); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, src string) *spec.File {
	t.Helper()
	f, err := spec.Parse("/srv/app/stack.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// (S14) The first file adds everything, and no file removes it.
func TestDiffWithNothing(t *testing.T) {
	t.Parallel()
	f := parse(t, "services: {b: {command: [b]}, a: {command: [a]}}")
	want := []spec.Difference{{ID: "a", What: spec.Added}, {ID: "b", What: spec.Added}}
	if diff := cmp.Diff(want, spec.Diff(nil, f)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if got := spec.Diff(f, nil); len(got) != 2 || got[0].What != spec.Removed {
		t.Errorf("got %+v", got)
	}
}
