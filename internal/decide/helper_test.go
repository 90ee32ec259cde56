package decide_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/workflow"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func parsed(t testing.TB, src string) *workflow.Definition {
	t.Helper()
	d, err := workflow.Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return d
}

func idsOf(d *workflow.Definition) string {
	var ids []string
	for i := range d.Nodes {
		ids = append(ids, d.Nodes[i].ID)
	}
	return strings.Join(ids, " ")
}
