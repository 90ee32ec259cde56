package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Reference returns the generated part of docs/api.md: a table of the operations and one of
// the problems.
func Reference() string {
	var b strings.Builder
	all := described().operations()
	for _, tag := range tags {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| operation | | role | repeated | errors of its own |\n|---|---|---|---|---|\n", tag.Name, tag.Description)
		for _, o := range all {
			if o.tag == tag.Name {
				fmt.Fprintf(&b, "| `%s` | `%s %s`<br>%s | %s | %s | %s |\n", o.id, o.method, o.path, o.summary, o.role, o.repeat, slugList(o.errors))
			}
		}
	}
	b.WriteString("\n## Problems\n\n| status | type | what it means, and what to do |\n|---|---|---|\n")
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", k.Status, k.Slug, k.Text)
	}
	fmt.Fprintf(&b, "\nEvery operation may respond with %s.\n", slugList(common))
	return b.String()
}

// Roles returns the generated part of docs/access.md: the operations of each role.
func Roles() string {
	var b strings.Builder
	b.WriteString("\n| role | operations, beside those of the roles that it includes |\n|---|---|\n")
	all := described().operations()
	for _, role := range []Role{Anybody, Viewer, Operator, Admin, Worker} {
		var names []string
		for _, o := range all {
			switch {
			case o.role != role:
			case o.everywhere:
				names = append(names, "`"+o.id+"`*")
			default:
				names = append(names, "`"+o.id+"`")
			}
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "| %s | %s |\n", role, strings.Join(names, ", "))
	}
	return b.String()
}

// Document returns the OpenAPI document of this version.
func Document() ([]byte, error) { return json.MarshalIndent(described().huma.OpenAPI(), "", "  ") }

// described returns a service that can only describe itself.
func described() *Service { return New(Config{Log: slog.New(slog.DiscardHandler)}) }

func slugList(all []Slug) string {
	var names []string
	for _, s := range all {
		names = append(names, "`"+string(s)+"`")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (r repetition) String() string {
	return [...]string{reads: "", replayed: "replayed", once: "refused", replayedEach: "replayed, each item", settles: "same effect", fenced: "known, or refused"}[r]
}
