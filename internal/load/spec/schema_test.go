package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// TestSchemaIsCurrent: the published schema and the tables of the manual are what the table of
// keys says now.
func TestSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(read(t, "../../../docs/load.schema.json"), spec.Schema()) {
		t.Error("docs/load.schema.json is not current: make generate")
	}
	if !strings.Contains(string(read(t, "../../../docs/load.md")), spec.Reference()) {
		t.Error("the tables in docs/load.md are not current: make generate")
	}
}

func compileSchema(t testing.TB) *jsonschema.Schema {
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
func instance(t testing.TB, src []byte) any {
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

// TestGoodFiles: good files, the examples and those of the manual are accepted, and pass the
// schema.
func TestGoodFiles(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	sources := map[string][]byte{}
	for _, pattern := range []string{"testdata/good/*.yaml", "../../../examples/load/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			sources[path] = read(t, path)
		}
	}
	for i, part := range strings.Split(string(read(t, "../../../docs/load.md")), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		sources["manual-"+string(rune('a'+i))+".yaml"] = []byte(text)
	}
	for path, src := range sources {
		if _, err := spec.ParseFile(path, src); err != nil {
			t.Error(err)
		}
		if err := schema.Validate(instance(t, src)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A change is of one value of the file with every key.
type change struct {
	name, from, to string
	parser, schema bool // whether they accept it
}

// TestSchemaAndParser: the schema refuses what the parser refuses in one value, and accepts what
// it accepts. What values mean together only the parser knows.
func TestSchemaAndParser(t *testing.T) {
	t.Parallel()
	schema, src := compileSchema(t), string(read(t, "testdata/good/all.yaml"))
	for _, c := range []change{
		{"unknown key", "seed: 7", "sed: 7", false, false},
		{"missing name", "name: everything\n", "", false, false},
		{"a number for text", "name: everything", "name: 7", false, false},
		{"a size with a space", "size: 256MiB", "size: 256 MiB", false, false},
		{"a size as a number", "size: 256MiB", "size: 268435456", true, true},
		{"a size beyond the limit", "size: 256MiB", "size: 35184372088832", false, false},
		{"two distributions", "size: {uniform: {min: 4KiB, max: 1MiB}}", "size: {uniform: {min: 4KiB, max: 1MiB}, list: [{size: 1}]}", false, false},
		{"no distribution", "size: {uniform: {min: 4KiB, max: 1MiB}}", "size: {}", false, false},
		{"a list of nothing", "{list: [{size: 4KiB, weight: 70}, {size: 1MB, weight: 30}]}", "{list: []}", false, false},
		{"unknown operation", "operation: stat", "operation: statt", false, false},
		{"unknown access", "access: random", "access: backwards", false, false},
		{"zipf", "access: {zipf: 1.1}", "access: {zipf: 0}", true, true},
		{"zipf out of range", "access: {zipf: 1.1}", "access: {zipf: 2}", false, false},
		{"null without quotes", "engine: uring", "engine: null", false, false},
		{"percent", "compressible: 50", "compressible: 101", false, false},
		{"no rate", "rate: {operations: 1000.5, arrival: poisson}", "rate: 0", false, false},
		{"rate alone", "rate: {operations: 1000.5, arrival: poisson}", "rate: 0.5", true, true},
		{"a duration without a unit", "duration: 10s", "duration: 10", false, false},
		{"a yes", "shared: true", "shared: yes", false, false},
		{"cleanup in a word", "cleanup: {completed: created, error: nothing, aborted: nothing}", "cleanup: nothing", true, true},
		{"cleanup in another word", "cleanup: {completed: created, error: nothing, aborted: nothing}", "cleanup: all", false, false},
		{"a threshold of nothing", "{errors: 0, throughput: 100MiB, operations: 1000}", "{operation: read}", false, false},
		{"quorum", "quorum: 2", "quorum: 0", false, false},
		{"no mix", "mix:\n", "mix: []\nmixed:\n", false, false},
		// together
		{"duration and count", "duration: 10s", "duration: 10s\ncount: 5", false, true},
		{"no such files", "files: data, weight", "files: date, weight", false, true},
		{"a range upside down", "min: 4KiB, max: 1MiB}}}", "min: 2MiB, max: 1MiB}}}", false, true},
	} {
		changed := strings.Replace(src, c.from, c.to, 1)
		if changed == src {
			t.Errorf("%s: the file has no %q", c.name, c.from)
		}
		_, err := spec.Parse([]byte(changed))
		if (err == nil) != c.parser {
			t.Errorf("%s: the parser says %v", c.name, err)
		}
		if err := schema.Validate(instance(t, []byte(changed))); (err == nil) != c.schema {
			t.Errorf("%s: the schema says %v", c.name, err)
		}
	}
}

// TestEveryKeyIsTested: the file with every key has every key of the schema.
func TestEveryKeyIsTested(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(spec.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	known, used := map[string]bool{}, map[string]bool{}
	schemaKeys(schema, known)
	for _, file := range []string{"all", "count", "objects"} {
		usedKeys(instance(t, read(t, "testdata/good/"+file+".yaml")), used)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(used))); diff != "" || len(known) < 60 {
		t.Errorf("%d keys (-known +used):\n%s", len(known), diff)
	}
}

// schemaKeys collects the names of all keys of a schema.
func schemaKeys(v any, keys map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			schemaKeys(one, keys)
		}
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		for name := range properties {
			keys[name] = true
		}
		for _, one := range v {
			schemaKeys(one, keys)
		}
	}
}

func usedKeys(v any, keys map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			usedKeys(one, keys)
		}
	case map[string]any:
		for name, one := range v {
			keys[name] = true
			usedKeys(one, keys)
		}
	}
}

// FuzzParse: no panic; an error has a place and a message; what is accepted passes the schema, and
// is within the limits that agents rely on.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			f.Add(read(f, path))
		}
	}
	schema := compileSchema(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		test, err := spec.Parse(src)
		if err != nil {
			var problems document.Problems
			if !errors.As(err, &problems) || len(problems) == 0 || problems[0].Message == "" {
				t.Fatal(err)
			}
			return
		}
		checkLimits(t, test)
		raw, err := yaml.YAMLToJSON(src)
		if err != nil {
			return // the two readers differ in what they take for YAML
		}
		if v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err == nil {
			_ = schema.Validate(v) // and no panic
		}
	})
}

func checkLimits(t *testing.T, test *spec.Test) {
	t.Helper()
	if test.Jobs < 1 || test.Depth < 1 || test.Interval <= 0 || (test.Duration > 0) == (test.Count > 0) || len(test.Mix) == 0 || test.Rate != nil && !(test.Rate.Operations > 0) {
		t.Fatalf("%+v", test)
	}
	for _, o := range test.Mix {
		if least, most := o.Block.Range(); test.Set(o.Files) == nil || o.Weight < 1 || least < 0 || most > spec.MaxSize {
			t.Fatalf("%+v", o)
		}
	}
}
