package spec_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// (S14) The published schema and the tables of the manual are what the table of
// keys says now.
func TestSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	published, err := os.ReadFile("../../../docs/supervise.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(published, spec.Schema()) {
		t.Error("docs/supervise.schema.json is not current: make generate")
	}
	if !strings.Contains(manual(t), spec.Reference()) {
		t.Error("the tables in docs/supervise.md are not current: make generate")
	}
}

func manual(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/supervise.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(spec.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(spec.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(spec.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance reads YAML as an editor would that checks against the schema.
func instance(t *testing.T, src []byte) any {
	t.Helper()
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

// (S14) Good files, the example and those of the manual are accepted, and pass the
// schema.
func TestGoodFiles(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	sources := map[string][]byte{}
	for _, pattern := range []string{"testdata/good/*.yaml", "../../../examples/supervise/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sources[path] = src
		}
	}
	for i, part := range strings.Split(manual(t), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		sources["manual-"+string(rune('a'+i))+".yaml"] = []byte(text)
	}
	for path, src := range sources {
		if _, err := spec.Parse(path, src); err != nil {
			t.Error(err)
		}
		if err := schema.Validate(instance(t, src)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// (S14) Files that are wrong in their keys, types, words or ranges do not pass the
// schema.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	beyond := []string{ // what services mean together, and what is not YAML of one document
		"cycle", "duplicate_keys", "empty", "not_yaml", "two_documents", "anchors", "name of the file", "zero_byte",
	}
	for _, path := range paths {
		if slices.Contains(beyond, strings.TrimSuffix(filepath.Base(path), ".yaml")) {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance(t, src)); err == nil {
			t.Errorf("%s passes the schema", path)
		}
	}
}

// (S14) testdata/good/all.yaml, which TestEveryKey reads, has every key there is.
func TestEveryKeyIsThere(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(spec.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile("testdata/good/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known, used := map[string]bool{}, map[string]bool{}
	schemaKeys(schema, "", known)
	usedKeys(schema, instance(t, src), "", used)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(used))); diff != "" || len(known) < 50 {
		t.Errorf("%d keys (-known +used):\n%s", len(known), diff)
	}
}

// schemaKeys collects the paths of the keys that a schema names.
func schemaKeys(schema map[string]any, path string, keys map[string]bool) {
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		keys[path+"."+name] = true
		schemaKeys(p.(map[string]any), path+"."+name, keys)
	}
	if elem, ok := schema["additionalProperties"].(map[string]any); ok {
		schemaKeys(elem, path+".*", keys)
	}
}

// usedKeys collects those of them that a value has.
func usedKeys(schema map[string]any, v any, path string, keys map[string]bool) {
	object, _ := v.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	elem, open := schema["additionalProperties"].(map[string]any)
	for name, value := range object {
		if p, ok := properties[name].(map[string]any); ok {
			keys[path+"."+name] = true
			usedKeys(p, value, path+"."+name, keys)
		} else if open {
			usedKeys(elem, value, path+".*", keys)
		}
	}
}
