package console

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/workflow"
)

func Moved(w io.Writer, m *workflow.Moved) {
	verb := "moved"
	if m.DryRun {
		verb = "would move"
	}
	fmt.Fprintf(w, "job %s %s from %s to %s\n", m.JobID, verb, pinText(m.From), pinText(m.To))
	showDiff(w, &m.Diff)
}

func showDiff(w io.Writer, d *workflow.Diff) {
	for _, line := range d.Lines() {
		fmt.Fprintln(w, "  "+Printable(line))
	}
	if d.Empty() {
		fmt.Fprintln(w, "  nothing differs")
	}
}

// pinText says what a job was made from: a registered version, or a definition that is not
// registered.
func pinText(p workflow.Pin) string {
	if p.Version > 0 {
		return "version " + versionText(p.Version)
	}
	return "no version (" + ShortHash(p.Hash) + ")"
}

func versionText(version int) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprint(version)
}

// MovePlans writes which of a workflow's unfinished jobs can move to a version. given are the
// global flags that printed commands need.
func MovePlans(w io.Writer, p *workflow.MovePlans, workspace, given string) {
	is := "would be version"
	if p.Registered {
		is = "is version"
	}
	fmt.Fprintf(w, "%s (%s) %s %d in workspace %s\n", p.Workflow, ShortHash(p.Hash), is, p.Version, workspace)
	if len(p.Jobs) == 0 {
		fmt.Fprintf(w, "no job of %s is unfinished\n", p.Workflow)
	}
	for i := range p.Jobs {
		showMovePlan(w, p, &p.Jobs[i], given)
	}
}

func showMovePlan(w io.Writer, all *workflow.MovePlans, p *workflow.MovePlan, given string) {
	fmt.Fprintf(w, "\njob %s %s stays on %s\n", p.JobID, p.Status, pinText(p.Pinned))
	showDiff(w, &p.Diff)
	move := fmt.Sprintf("pawl job move %s --to %d%s", p.JobID, all.Version, given)
	switch {
	case p.Diff.Empty() && all.Registered && p.Pinned.Version == all.Version:
	case !p.Movable:
		for _, why := range p.Why {
			fmt.Fprintln(w, "  cannot be moved: "+Printable(why))
		}
	case all.Registered:
		fmt.Fprintln(w, "  can be moved with: "+move)
	default:
		fmt.Fprintln(w, "  can be moved, once the file is registered, with: "+move)
	}
}

// ShortHash returns enough of a hash to distinguish definitions.
func ShortHash(hash string) string {
	if rest, ok := strings.CutPrefix(hash, "sha256:"); ok && len(rest) > 12 {
		return "sha256:" + rest[:12]
	}
	return hash
}

// Versions lists versions of workflows.
func Versions(w io.Writer, json bool, zone *time.Location) *Listing[inspect.Registered] {
	row := func(r *inspect.Registered) []string {
		return []string{r.Name, fmt.Sprint(r.Version), ShortHash(r.Hash), Second(r.At, zone), r.Actor, r.Reason}
	}
	return &Listing[inspect.Registered]{W: w, JSON: json, Head: []string{"NAME", "VERSION", "DEFINITION", "REGISTERED", "BY", "REASON"}, Row: row}
}

// Version writes a version of a workflow and the steps of its definition.
func Version(w io.Writer, v *pawl.Version, def *workflow.Definition, zone *time.Location) {
	fmt.Fprintf(w, "%s\n", def.Tree())
	for _, fact := range [][2]string{
		{"description", def.Description},
		{"version", fmt.Sprint(v.Version)},
		{"workspace", v.Workspace},
		{"definition", def.HashString()},
		{"folder", v.Dir},
		{"registered", exactly(pawl.Timestamp(v.At), zone)},
		{"by", v.Actor},
		{"reason", v.Reason},
	} {
		if fact[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", fact[0], Printable(fact[1]))
		}
	}
}
