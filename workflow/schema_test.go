package workflow_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/workflow"
)

// TestSchemaIsCurrent: the published schema and the tables of the reference are
// what the table of keys says now (T12).
func TestSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	published, err := os.ReadFile("../docs/workflow.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(published, workflow.Schema()) {
		t.Error("docs/workflow.schema.json is not current: go run ./internal/lab/workflowschema")
	}
	doc, err := os.ReadFile("../docs/workflow.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), workflow.Reference()) {
		t.Error("the tables in docs/workflow.md are not current: go run ./internal/lab/workflowschema")
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(workflow.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(workflow.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(workflow.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance reads YAML as an editor would that checks against the schema.
func instance(t *testing.T, path string) any {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(src)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchemaAgrees: good files and canonical forms pass the schema; files that
// are wrong in their keys, types or ranges do not.
func TestSchemaAgrees(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	good, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(good) == 0 {
		t.Fatal(good, err)
	}
	for _, path := range good {
		if err := schema.Validate(instance(t, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, name := range []string{
		"bad_ids", "bad_name", "unknown_keys", "missing_keys", "not_a_mapping", "no_kind", "two_kinds", "wrong_types",
		"wrong_types_in_step", "ranges", "words", "needs_text", "env_names", "long_id", "durations",
		"http", "inputs", "command", "no_value", "matrix_types", "matrix_names", "matrix_axes", "matrix_values", "matrix_and_foreach",
		"matrix_long_value", "matrix_as_a_list", "approval", "approval_form", "approval_expires", "event",
		"queue", "priority", "queue_timeout", "hooks_keys", "hooks_types", "hooks_list", "hooks_many", "concurrency",
		"concurrency_types", "concurrency_limit", "stored_keys", "two_kinds_that_wait", "child_written_out", "sleep",
	} {
		if err := schema.Validate(instance(t, "testdata/bad/"+name+".yaml")); err == nil {
			t.Errorf("%s passes the schema", name)
		}
	}
	var s map[string]any
	if err := json.Unmarshal(workflow.Schema(), &s); err != nil || s["$schema"] == nil {
		t.Error(err)
	}
}

// TestDocumentedExample: the example at the top of the reference is a workflow.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/workflow.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```yaml\n")
	src, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	d, err := workflow.ParseWith("example.yaml", []byte(src), beside("testdata/good"))
	if err != nil || len(d.Hooks) != 2 {
		t.Error(err)
	}
}
