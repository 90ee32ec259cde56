package health

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
)

var update = flag.Bool("update", false, "rewrite docs/doctor.md")

// TestDocument: the document is current with the catalogue.
func TestDocument(t *testing.T) {
	t.Parallel()
	const path = "../../docs/doctor.md"
	if *update {
		if err := os.WriteFile(path, []byte(document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document(), string(got)); diff != "" {
		t.Errorf("rewrite it with go test ./internal/health -run TestDocument -update (-catalogue +document):\n%s", diff)
	}
}

func document() string {
	var b strings.Builder
	b.WriteString("# What pawl doctor checks\n\n`pawl doctor` reports for each check whether it is ok, a warning or a problem, what was measured, and what to do.\n" +
		"It ends with exit code 1 if there is a problem. A test generates this document from the catalogue in `internal/health/checks.go`.\n")
	for _, c := range Checks {
		where := ""
		if c.Store != "" {
			where = " (" + map[string]string{"postgres": "PostgreSQL", "sqlite": "SQLite"}[c.Store] + ")"
		}
		fmt.Fprintf(&b, "\n## %s%s\n\n- checks: %s\n- threshold: %s\n- what it means: %s\n- what to do: %s\n", c.Name, where, c.What, c.Threshold(), c.Means, c.Cure)
	}
	return b.String()
}

// TestChecks: every check has all its texts, and names are unique.
func TestChecks(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Checks {
		if seen[c.Name] || c.Name == "" || c.What == "" || c.Healthy == "" || c.Threshold() == "" || c.Means == "" || c.Cure == "" {
			t.Errorf("check %+v is incomplete, or a duplicate", c)
		}
		seen[c.Name] = true
	}
}

func TestGrade(t *testing.T) {
	t.Parallel()
	high, low := Check{Unit: Count, Warn: 10, Problem: 20}, Check{Unit: Bytes, Warn: 2048, Problem: 1024, Low: true}
	for _, tt := range []struct {
		check *Check
		v     float64
		want  Severity
	}{
		{&high, 9, OK}, {&high, 10, Warning}, {&high, 19, Warning}, {&high, 20, Problem},
		{&low, 2048, OK}, {&low, 2047, Warning}, {&low, 1024, Warning}, {&low, 1023, Problem},
		{&Check{Unit: Count, Warn: 1}, 1e9, Warning},
	} {
		if got := tt.check.Grade(tt.v); got != tt.want {
			t.Errorf("%v of %+v is %s, want %s", tt.v, tt.check, got, tt.want)
		}
	}
	if got, want := low.Threshold(), "warning below 2 KiB, problem below 1 KiB"; got != want {
		t.Errorf("threshold %q, want %q", got, want)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		unit Unit
		v    float64
		want string
	}{
		{Seconds, 0.25, "250 ms"}, {Seconds, 90, "90 s"}, {Seconds, 600, "10 min"}, {Seconds, 4 * 3600, "4 h"}, {Seconds, 72 * 3600, "3 days"},
		{Percent, 61.6, "62 %"}, {Bytes, 512, "512 bytes"}, {Bytes, 128 << 20, "128 MiB"}, {Bytes, 1 << 31, "2.0 GiB"}, {Count, 12, "12"},
	} {
		if got := tt.unit.Format(tt.v); got != tt.want {
			t.Errorf("%v is %q, want %q", tt.v, got, tt.want)
		}
	}
}

const second = 1_000_000

// healthy is a snapshot of two processes, at 1000 s.
func healthy() *Snapshot {
	const now = 1000 * second
	node := func(id int64, role string) *pawl.Node {
		return &pawl.Node{ID: id, Role: role, Name: fmt.Sprint("h/", id), Version: "v1", BeatAt: now - 5*second}
	}
	return &Snapshot{
		Now: now, Nodes: []*pawl.Node{node(1, "server"), node(2, "worker")}, Open: 7,
		Workers: []*pawl.Worker{{ID: pawl.ID{1}, Name: "a", Routes: []rowkey.Route{7}, Record: pawl.Record{State: lifecycle.WorkerRunning}}},
		Waiting: []Waiting{{Route: 7, Jobs: 3, Oldest: now - 5*second}},
		Late:    []Late{{Check: "deadlines", What: "jobs", Count: 1, Since: now - second}, {Check: "evaluation", What: "steps", Count: 1, Since: now - second}},
	}
}

// TestExamine: each fault is found, and nothing else.
func TestExamine(t *testing.T) {
	t.Parallel()
	stuck := func(kind pawl.ReasonKind) []pawl.StuckJob {
		return []pawl.StuckJob{{JobView: pawl.JobView{ID: "j_1"}, Reason: &pawl.Reason{Kind: kind}}}
	}
	for name, tt := range map[string]struct {
		change func(*Snapshot)
		stuck  []pawl.StuckJob
		check  string
		want   Severity
	}{
		"healthy":            {func(*Snapshot) {}, nil, "", OK},
		"nothing to do":      {func(w *Snapshot) { *w = Snapshot{Now: w.Now} }, nil, "", OK},
		"waits for a person": {func(*Snapshot) {}, stuck(pawl.ReasonApproval), "", OK},
		"stuck":              {func(*Snapshot) {}, stuck(pawl.ReasonReady), "stuck", Warning},
		"own clock":          {func(w *Snapshot) { w.Skew = -3 * second }, nil, "clocks", Warning},
		"a node's clock":     {func(w *Snapshot) { w.Nodes[1].Skew = 70 * second }, nil, "clocks", Problem},
		"versions":           {func(w *Snapshot) { w.Nodes[1].Version = "v2" }, nil, "versions", Warning},
		"an older version that has stopped": {func(w *Snapshot) {
			n := *w.Nodes[1]
			n.Version, n.BeatAt, n.Skew = "v0", w.Now-31*second, 70*second
			w.Nodes = append(w.Nodes, &n)
		}, nil, "", OK},
		"no server":       {func(w *Snapshot) { w.Nodes = w.Nodes[1:] }, nil, "server", Problem},
		"a silent server": {func(w *Snapshot) { w.Nodes[0].BeatAt = w.Now - 31*second }, nil, "server", Problem},
		"no route":        {func(w *Snapshot) { w.Waiting[0].Route = 8 }, nil, "routes", Problem},
		"paused worker":   {func(w *Snapshot) { w.Workers[0].State = lifecycle.WorkerPaused }, nil, "routes", Problem},
		"dead worker": {func(w *Snapshot) {
			w.Waiting, w.Living = nil, gone(w)
		}, nil, "workers", Warning},
		"long queue":        {func(w *Snapshot) { w.Waiting[0].Oldest = w.Now - 601*second }, nil, "queue", Warning},
		"late deadlines":    {func(w *Snapshot) { w.Late[0].Since = w.Now - 61*second }, nil, "deadlines", Problem},
		"late evaluation":   {func(w *Snapshot) { w.Late[1].Since = w.Now - 11*second }, nil, "evaluation", Warning},
		"one key":           {func(w *Snapshot) { w.Secrets = map[string]int{"a": 2} }, nil, "", OK},
		"two keys":          {func(w *Snapshot) { w.Secrets = map[string]int{"a": 2, "b": 1} }, nil, "secrets", Warning},
		"readable secrets":  {func(w *Snapshot) { w.Secrets = map[string]int{"a": 2, "": 1} }, nil, "secrets", Warning},
		"a blocked webhook": {func(w *Snapshot) { w.Blocked = []Blocked{{"w", "there is no secret"}} }, nil, "secrets", Warning},
		"dev evaluates too": {func(w *Snapshot) { w.Nodes[0].Role = "dev" }, nil, "", OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := healthy()
			tt.change(w)
			got := ""
			all := Examine(w, tt.stuck)
			for _, f := range all {
				if f.Severity != OK {
					got += f.Check + " " + string(f.Severity)
				}
			}
			want := ""
			if tt.check != "" {
				want = tt.check + " " + string(tt.want)
			}
			if got != want || Worst(all) != tt.want {
				t.Errorf("found %q (%s), want %q (%s): %+v", got, Worst(all), want, tt.want, all)
			}
		})
	}
}

func TestSkew(t *testing.T) {
	t.Parallel()
	for _, tt := range [][4]int64{{10, 20, 15, 0}, {10, 20, 5, 5}, {10, 20, 50, -30}} {
		if got := Skew(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("Skew(%d, %d, %d) is %d, want %d", tt[0], tt[1], tt[2], got, tt[3])
		}
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	r := new(Diagnosis)
	r.Unusable(&pawl.Error{Kind: pawl.Unavailable, Message: "it is away", Hint: "wait"})
	r.Unusable(errors.New("broken"))
	if f := r.Findings; f[0].Measured != "it is away" || f[0].Cure != "wait" || f[1].Cure == "" || Worst(f) != Problem {
		t.Errorf("findings %+v", f)
	}
}

// gone is what is seen of the first worker of a snapshot when its process is gone.
func gone(w *Snapshot) *Report {
	return &Report{Now: w.Now, Workers: []Sighting{{Worker: w.Workers[0].Key(), Beat: w.Now, Lock: Free}}}
}

// TestADeadDevEvaluatesNothing: it is known of its worker at once.
func TestADeadDevEvaluatesNothing(t *testing.T) {
	t.Parallel()
	w := healthy()
	w.Nodes = w.Nodes[:1]
	w.Nodes[0].Role = "dev"
	w.Living = gone(w)
	all := Examine(w, nil)
	if !slices.ContainsFunc(all, func(f Finding) bool { return f.Check == "server" && f.Severity == Problem }) {
		t.Errorf("findings %v, want that nobody evaluates", all)
	}
}
