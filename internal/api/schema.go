package api

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/simulate"
	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/workflow"
)

// newSchemas returns a registry that knows how Pawl encodes its own types.
func newSchemas() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", nameOf)
	r.RegisterTypeAlias(reflect.TypeFor[pawl.Timestamp](), reflect.TypeFor[timestamp]())
	r.RegisterTypeAlias(reflect.TypeFor[pawl.Duration](), reflect.TypeFor[duration]())
	r.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[anyJSON]())
	r.RegisterTypeAlias(reflect.TypeFor[pawl.Failure](), reflect.TypeFor[orNull[Failure]]())
	r.RegisterTypeAlias(reflect.TypeFor[pawl.ReasonChange](), reflect.TypeFor[orNull[ReasonChange]]())
	r.RegisterTypeAlias(reflect.TypeFor[audit.Fault](), reflect.TypeFor[orNull[TrailFault]]())
	r.RegisterTypeAlias(reflect.TypeFor[inspect.ValueDiff](), reflect.TypeFor[orNull[ValueDiff]]())
	r.RegisterTypeAlias(reflect.TypeFor[workflow.Diff](), reflect.TypeFor[orNull[WorkflowDiff]]())
	return r
}

// schemaNames are the names of types whose own name another type of the document has.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[verify.Report]():   "VerifyReport",
	reflect.TypeFor[verify.Finding]():  "VerifyFinding",
	reflect.TypeFor[simulate.Result](): "SimulatedJob",
	reflect.TypeFor[inspect.Diff]():    "JobDiff",
	reflect.TypeFor[crew.Check]():      "CrewCheck",
	reflect.TypeFor[crew.Diff]():       "CrewDiff",
	reflect.TypeFor[crew.Entry]():      "CrewEntry",
	reflect.TypeFor[crew.Output]():     "CrewOutput",
}

func nameOf(t reflect.Type, hint string) string {
	if name := schemaNames[t]; name != "" {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

type (
	timestamp struct{}
	duration  struct{}
	anyJSON   struct{}

	// orNull is a struct that may be null. The HTTP library knows that of scalars only.
	orNull[T any] struct{}
)

// The fields of these are those of the types that they are made of, and their names those
// of the document.
type (
	Failure      pawl.Failure
	ReasonChange pawl.ReasonChange
	TrailFault   audit.Fault
	ValueDiff    inspect.ValueDiff
	WorkflowDiff workflow.Diff
)

func (timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true, Description: "RFC 3339, in UTC, with microseconds.",
		Examples: []any{"2026-03-01T12:00:00.000000Z"}}
}

func (duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Nullable: true, Description: "A duration, such as 1m30s.", Examples: []any{"1m30s"}}
}

func (anyJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "Any JSON."}
}

func (orNull[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(reflect.TypeFor[T](), true, ""), {Type: "null"}}}
}
