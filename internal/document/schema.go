package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Schema returns the JSON Schema (2020-12) of a kind of files. It knows keys,
// types, words and ranges, not what they mean together.
func Schema(root *Shape, id, title string) []byte {
	m := SchemaOf(root, "")
	m["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	m["$id"] = id
	m["title"] = title
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		panic(err) // cannot happen: JSON can represent the table
	}
	return b.Bytes()
}

// durationForm matches what time.ParseDuration accepts, except a bare zero.
const durationForm = `^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`

// SchemaOf returns the schema of a shape; doc describes it.
func SchemaOf(s *Shape, doc string) map[string]any {
	m := map[string]any{}
	if doc != "" {
		m["description"] = doc
	}
	switch s.Kind {
	case ShapeText:
		textSchema(m, s)
	case ShapeScalar:
		m["type"] = []string{"string", "number", "boolean"}
		if s.Pattern != nil {
			m["pattern"] = s.Pattern.String()
		}
	case ShapeInteger:
		m["type"], m["minimum"], m["maximum"] = "integer", s.Min, s.Max
	case ShapeBoolean:
		m["type"] = "boolean"
	case ShapeDuration:
		m["type"], m["pattern"] = "string", durationForm
	case ShapeOwn:
		s.Own.Schema(m, s)
	case ShapeAny:
		m["not"] = map[string]any{"type": "null"}
	case ShapeList:
		m["type"], m["items"] = "array", SchemaOf(s.Elem, "")
		limit(m, "minItems", s.Min)
		limit(m, "maxItems", s.Max)
	case ShapeMap:
		m["type"], m["additionalProperties"] = "object", SchemaOf(s.Elem, "")
		limit(m, "minProperties", s.Min)
		limit(m, "maxProperties", s.Max)
		names := map[string]any{"pattern": s.Key.Pattern.String()}
		if s.Key.Reserved != "" {
			names["not"] = map[string]any{"pattern": "^" + s.Key.Reserved}
		}
		m["propertyNames"] = names
	case ShapeObject:
		ObjectSchema(m, s)
	}
	return m
}

func limit(m map[string]any, key string, n int) {
	if n > 0 {
		m[key] = n
	}
}

func textSchema(m map[string]any, s *Shape) {
	m["type"] = "string"
	if len(s.Words) > 0 {
		m["enum"] = s.Words
		return
	}
	limit(m, "minLength", s.Min)
	limit(m, "maxLength", s.Max)
	if s.Pattern != nil {
		m["pattern"] = s.Pattern.String()
	}
}

// ObjectSchema writes the schema of a shape's fields into m.
func ObjectSchema(m map[string]any, s *Shape) {
	properties := map[string]any{}
	var required []string
	for _, f := range s.Fields {
		if f.Stored || f.Barred != nil {
			continue
		}
		p := SchemaOf(f.Shape, f.Doc)
		if f.Default != nil {
			p["default"] = f.Default
		}
		properties[f.Name] = p
		if f.Required {
			required = append(required, f.Name)
		}
	}
	m["type"], m["properties"], m["additionalProperties"] = "object", properties, false
	if len(required) > 0 {
		m["required"] = required
	}
	if len(s.OneOf) > 0 {
		m["oneOf"] = oneOf(s.OneOf)
	}
	if len(s.Apart) > 0 {
		m["not"] = map[string]any{"required": s.Apart}
	}
}

// oneOf returns the schema for exactly one of the keys.
func oneOf(keys []string) []any {
	var out []any
	for _, k := range keys {
		out = append(out, map[string]any{"required": []string{k}})
	}
	return out
}

// Table returns the keys of an object as a table in Markdown.
func Table(title string, s *Shape) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", title)
	for i := range s.Fields {
		b.WriteString(row(&s.Fields[i]))
	}
	b.WriteByte('\n')
	return b.String()
}

func row(f *Field) string {
	if f.Stored || f.Barred != nil {
		return ""
	}
	def := ""
	switch {
	case f.Required:
		def = "required"
	case f.Default != nil:
		def = fmt.Sprintf("`%v`", f.Default)
		if list, ok := f.Default.([]any); ok && len(list) == 0 {
			def = ""
		}
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.Name, f.Shape.summary(), def, strings.ReplaceAll(f.Doc, "|", `\|`))
}

// summary describes the values of a shape in a few words.
func (s *Shape) summary() string {
	switch s.Kind {
	case ShapeText:
		if len(s.Words) > 0 {
			return "`" + strings.Join(s.Words, "`, `") + "`"
		}
		if s.Pattern != nil {
			return "text, `" + strings.ReplaceAll(s.Pattern.String(), "|", `\|`) + "`"
		}
		return "text"
	case ShapeScalar:
		return "text"
	case ShapeInteger:
		return fmt.Sprintf("%d to %d", s.Min, s.Max)
	case ShapeBoolean:
		return "`true`, `false`"
	case ShapeDuration:
		return fmt.Sprintf("duration, %s to %s", s.Least, s.Most)
	case ShapeOwn:
		return s.Own.Summary(s)
	case ShapeAny:
		return "any value"
	case ShapeList:
		return "list of " + s.Elem.summary()
	case ShapeMap:
		return "name: " + s.Elem.summary()
	}
	return "mapping, see below"
}
