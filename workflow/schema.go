package workflow

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// SchemaID is the address at which the JSON Schema of the workflow file is published.
const SchemaID = "https://raw.githubusercontent.com/pawl-dev/pawl/main/docs/workflow.schema.json"

// Schema returns the JSON Schema (2020-12) of the workflow file, made from the
// table of keys that Parse uses. It knows keys, types, words and ranges, not
// what steps and expressions mean together.
func Schema() []byte { return document.Schema(workflowShape, SchemaID, "Pawl workflow") }

// matrixSchema is the schema of the form that people write, or of the canonical form.
func matrixSchema(m map[string]any, s *document.Shape) {
	m["type"] = []string{"object", "array"}
	m["minProperties"] = s.Min
	m["maxProperties"] = s.Max
	m["propertyNames"] = map[string]any{"pattern": idPattern.String()}
	m["additionalProperties"] = document.SchemaOf(axisValues, "")
	m["minItems"] = s.Min
	m["maxItems"] = s.Max
	m["items"] = document.SchemaOf(axisShape, "")
}

func childSchema(m map[string]any, s *document.Shape) {
	document.ObjectSchema(m, s)
	m["type"], m["maxLength"] = []string{"string", "object"}, s.Max
}

// Reference returns the tables of keys in Markdown, for docs/workflow.md.
func Reference() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		shape *document.Shape
	}{
		{"The file", workflowShape}, {"An input", inputShape}, {"A step", stepShape}, {"retry", retryShape}, {"http", httpShape}, {"crew", crewShape}, {"load", loadShape}, {"An entry of thresholds", limitsShape},
		{"approval", approvalShape}, {"event", eventShape}, {"workflow, written out", childShape}, {"hooks", hooksShape}, {"concurrency", concurrencyShape},
	} {
		b.WriteString(document.Table(part.title, part.shape))
	}
	return b.String()
}
