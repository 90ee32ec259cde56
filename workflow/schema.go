package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// SchemaID is where the JSON Schema of the workflow file is published.
const SchemaID = "https://raw.githubusercontent.com/pawl-dev/pawl/main/docs/workflow.schema.json"

// Schema answers the JSON Schema (2020-12) of the workflow file, made from the
// table of keys that Parse uses. It knows keys, types, words and ranges, not
// what steps and expressions mean together.
func Schema() []byte {
	root := schemaOf(workflowShape, "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Pawl workflow"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic(err) // the table holds nothing that JSON cannot
	}
	return b.Bytes()
}

// durationForm is what time.ParseDuration takes, but for the bare zero.
const durationForm = `^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`

func schemaOf(s *shape, doc string) map[string]any {
	m := map[string]any{}
	if doc != "" {
		m["description"] = doc
	}
	switch s.kind {
	case shapeText:
		textSchema(m, s)
	case shapeScalar:
		m["type"] = []string{"string", "number", "boolean"}
	case shapeInteger:
		m["type"], m["minimum"], m["maximum"] = "integer", s.min, s.max
	case shapeBoolean:
		m["type"] = "boolean"
	case shapeDuration:
		m["type"], m["pattern"] = "string", durationForm
	case shapeCondition:
		m["type"] = []string{"string", "boolean"}
	case shapeItems:
		m["type"] = []string{"string", "array"}
	case shapePause:
		m["type"] = "string"
	case shapeAtom:
		m["type"], m["maxLength"] = []string{"string", "number", "boolean"}, s.max
	case shapeMatrix:
		matrixSchema(m, s)
	case shapeChild:
		objectSchema(m, s)
		m["type"], m["maxLength"] = []string{"string", "object"}, s.max
	case shapeAny:
		m["not"] = map[string]any{"type": "null"}
	case shapeList:
		m["type"], m["items"] = "array", schemaOf(s.elem, "")
		limit(m, "minItems", s.min)
		limit(m, "maxItems", s.max)
	case shapeMap:
		m["type"], m["additionalProperties"] = "object", schemaOf(s.elem, "")
		limit(m, "maxProperties", s.max)
		names := map[string]any{"pattern": s.key.pattern.String()}
		if s.key.reserved != "" {
			names["not"] = map[string]any{"pattern": "^" + s.key.reserved}
		}
		m["propertyNames"] = names
	case shapeObject:
		objectSchema(m, s)
	}
	return m
}

func limit(m map[string]any, key string, n int) {
	if n > 0 {
		m[key] = n
	}
}

func textSchema(m map[string]any, s *shape) {
	m["type"] = "string"
	if len(s.words) > 0 {
		m["enum"] = s.words
		return
	}
	limit(m, "minLength", s.min)
	limit(m, "maxLength", s.max)
	if s.pattern != nil {
		m["pattern"] = s.pattern.String()
	}
}

func objectSchema(m map[string]any, s *shape) {
	properties := map[string]any{}
	var required []string
	for _, f := range s.fields {
		if f.stored || f.barred {
			continue
		}
		p := schemaOf(f.shape, f.doc)
		if f.def != nil {
			p["default"] = f.def
		}
		properties[f.name] = p
		if f.required {
			required = append(required, f.name)
		}
	}
	m["type"], m["properties"], m["additionalProperties"] = "object", properties, false
	if len(required) > 0 {
		m["required"] = required
	}
	switch s {
	case stepShape:
		m["oneOf"] = oneOf(stepKinds)
		m["not"] = map[string]any{"required": []string{"foreach", "matrix"}}
	case hookShape:
		m["oneOf"] = oneOf(workKinds)
	}
}

// oneOf says that exactly one of the keys is there.
func oneOf(keys []string) []any {
	var out []any
	for _, k := range keys {
		out = append(out, map[string]any{"required": []string{k}})
	}
	return out
}

// matrixSchema is of the form that people write, or of that in canonical forms.
func matrixSchema(m map[string]any, s *shape) {
	m["type"] = []string{"object", "array"}
	limit(m, "minProperties", s.min)
	limit(m, "maxProperties", s.max)
	m["propertyNames"] = map[string]any{"pattern": idPattern.String()}
	m["additionalProperties"] = schemaOf(axisValues, "")
	limit(m, "minItems", s.min)
	limit(m, "maxItems", s.max)
	m["items"] = schemaOf(axisShape, "")
}

// Reference answers the tables of keys in Markdown, for docs/workflow.md.
func Reference() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		shape *shape
	}{
		{"The file", workflowShape}, {"An input", inputShape}, {"A step", stepShape}, {"retry", retryShape}, {"http", httpShape},
		{"approval", approvalShape}, {"event", eventShape}, {"workflow, written out", childShape}, {"hooks", hooksShape}, {"concurrency", concurrencyShape},
	} {
		fmt.Fprintf(&b, "### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", part.title)
		for _, f := range part.shape.fields {
			b.WriteString(row(&f))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func row(f *field) string {
	if f.stored {
		return ""
	}
	def := ""
	switch {
	case f.required:
		def = "required"
	case f.def != nil:
		def = fmt.Sprintf("`%v`", f.def)
		if list, ok := f.def.([]any); ok && len(list) == 0 {
			def = ""
		}
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.name, f.shape.summary(), def, strings.ReplaceAll(f.doc, "|", `\|`))
}

// summary says in a few words what values a shape has.
func (s *shape) summary() string {
	switch s.kind {
	case shapeText:
		if len(s.words) > 0 {
			return "`" + strings.Join(s.words, "`, `") + "`"
		}
		if s.pattern != nil {
			return "text, `" + strings.ReplaceAll(s.pattern.String(), "|", `\|`) + "`"
		}
		return "text"
	case shapeScalar:
		return "text"
	case shapeInteger:
		return fmt.Sprintf("%d to %d", s.min, s.max)
	case shapeBoolean:
		return "`true`, `false`"
	case shapeDuration:
		return fmt.Sprintf("duration, %s to %s", s.least, s.most)
	case shapeCondition:
		return "expression"
	case shapeItems:
		return "list, or expression"
	case shapePause:
		return fmt.Sprintf("duration, %s to %s, or text with expressions", s.least, s.most)
	case shapeAtom:
		return "text, number or boolean"
	case shapeMatrix:
		return "name: list of text, numbers or booleans"
	case shapeChild:
		return "`NAME`, `NAME@VERSION`, or a path that ends in `.yaml` or `.yml`"
	case shapeAny:
		return "any value"
	case shapeList:
		return "list of " + s.elem.summary()
	case shapeMap:
		return "name: " + s.elem.summary()
	}
	return "mapping, see below"
}
