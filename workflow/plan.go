package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// Levels returns the steps in levels: those without needs first, then each
// level needs only nodes of the levels before it. Hooks are not among them.
func (d *Definition) Levels() [][]int {
	level := make([]int, len(d.Nodes)+1)
	var of func(n int) int
	of = func(n int) int {
		if level[n] == 0 {
			level[n] = 1
			for _, need := range d.Nodes[n-1].Needs {
				level[n] = max(level[n], of(need)+1)
			}
		}
		return level[n]
	}
	var levels [][]int
	for n := 1; n <= len(d.Nodes); n++ {
		if d.Nodes[n-1].Hook != NoHook {
			continue
		}
		for len(levels) < of(n) {
			levels = append(levels, nil)
		}
		levels[of(n)-1] = append(levels[of(n)-1], n)
	}
	return levels
}

// Tree draws the steps as text: what runs first at the top, and below it, one
// line each, the levels that wait for it, then the hooks.
//
//	nightly (3 steps, 1 hook, at most 10 at once)
//	1   extract  command
//	2   load     run      foreach  after extract
//	3   report   http     if       after load
//	hooks
//	    tell     command           on failure
func (d *Definition) Tree() string {
	var b strings.Builder
	b.WriteString(d.title() + "\n")
	c := d.columns()
	for i, level := range d.Levels() {
		for j, n := range level {
			number := ""
			if j == 0 {
				number = fmt.Sprint(i + 1)
			}
			b.WriteString(c.line(number, d, n))
		}
	}
	if len(d.Hooks) > 0 {
		b.WriteString("hooks\n")
	}
	for _, n := range d.Hooks {
		b.WriteString(c.line("", d, n))
	}
	return b.String()
}

// title returns a line with the numbers of steps and hooks and the limits.
func (d *Definition) title() string {
	parts := []string{counted(len(d.Nodes)-len(d.Hooks), "step")}
	if n := len(d.Hooks); n > 0 {
		parts = append(parts, counted(n, "hook"))
	}
	parts = append(parts, fmt.Sprintf("at most %d at once", d.Workers))
	if d.Concurrency > 0 {
		jobs := "at most " + counted(d.Concurrency, "job") + " at once"
		if d.key != nil {
			jobs += " per key"
		}
		parts = append(parts, jobs)
	}
	return fmt.Sprintf("%s (%s)", d.Name, strings.Join(parts, ", "))
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// columns are the widths of what Tree writes of a node.
type columns struct{ id, label, marks int }

func (d *Definition) columns() columns {
	var c columns
	for i := range d.Nodes {
		n := &d.Nodes[i]
		c = columns{max(c.id, len(n.ID)), max(c.label, len(n.label())), max(c.marks, len(n.marks()))}
	}
	return c
}

func (c columns) line(number string, d *Definition, n int) string {
	node := &d.Nodes[n-1]
	line := fmt.Sprintf("%-3s %-*s  %-*s  %-*s  %s", number, c.id, node.ID, c.label, node.label(), c.marks, node.marks(), d.after(node))
	return strings.TrimRight(line, " ") + "\n"
}

// label names what runs the node, or what it waits for.
func (n *Node) label() string {
	switch n.Kind {
	case KindHandler:
		return n.Handler
	case KindEvent:
		return "event " + n.Event
	case KindSleep:
		if t := n.wait.sleep; len(t.parts) == 1 && t.parts[0].program == nil {
			return "sleep " + t.parts[0].text
		}
	case KindWorkflow:
		return "workflow " + n.Child.label()
	}
	return string(n.Kind)
}

// label names the workflow as a file does.
func (c *Child) label() string {
	switch {
	case c.File != "":
		return c.File
	case c.Definition != nil:
		return c.Definition.Name
	case c.Version > 0:
		return fmt.Sprintf("%s@%d", c.Name, c.Version)
	}
	return c.Name
}

func (n *Node) marks() string {
	var marks []string
	mark := func(is bool, format string, args ...any) {
		if is {
			marks = append(marks, fmt.Sprintf(format, args...))
		}
	}
	mark(n.HasIf, "if")
	mark(n.HasForeach, "foreach")
	mark(len(n.Matrix) > 0, "matrix %s", n.size())
	mark(n.Parallel > 0, "parallel %d", n.Parallel)
	mark(n.Queue != DefaultQueue, "queue %s", n.Queue)
	mark(n.Priority != 0, "priority %d", n.Priority)
	return strings.Join(marks, ", ")
}

// size writes how large a matrix is: 2x3.
func (n *Node) size() string {
	var sizes []string
	for _, a := range n.Matrix {
		sizes = append(sizes, fmt.Sprint(len(a.Values)))
	}
	return strings.Join(sizes, "x")
}

// after says when a node runs.
func (d *Definition) after(n *Node) string {
	switch {
	case n.Hook == HookOnFailure:
		return "on failure"
	case n.Hook == HookOnCancel:
		return "on cancel"
	case n.Hook == HookAlways:
		return "always"
	case len(n.Needs) == 0:
		return ""
	}
	ids := make([]string, len(n.Needs))
	for i, need := range n.Needs {
		ids[i] = d.Nodes[need-1].ID
	}
	return "after " + strings.Join(ids, ", ")
}

// Mermaid draws the steps as a Mermaid flowchart, and the hooks in a box of
// their own. An id may be a word of Mermaid, so nodes are numbered.
func (d *Definition) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range d.Nodes {
		if d.Nodes[i].Hook == NoHook {
			b.WriteString("  " + d.box(i+1))
		}
	}
	for i := range d.Nodes {
		for _, need := range slices.Sorted(slices.Values(d.Nodes[i].Needs)) {
			fmt.Fprintf(&b, "  n%d --> n%d\n", need, i+1)
		}
	}
	if len(d.Hooks) > 0 {
		b.WriteString("  subgraph hooks\n")
		for _, n := range d.Hooks {
			b.WriteString("    " + d.box(n))
		}
		b.WriteString("  end\n")
	}
	return b.String()
}

// box draws one node.
func (d *Definition) box(number int) string {
	n := &d.Nodes[number-1]
	lines := []string{n.ID, mermaidText.Replace(n.label())}
	if marks := n.marks(); marks != "" {
		lines = append(lines, marks)
	}
	if n.Hook != NoHook {
		lines = append(lines, d.after(n))
	}
	open, end := "[", "]"
	if n.Fans() {
		open, end = "[[", "]]"
	}
	return fmt.Sprintf("n%d%s\"%s\"%s\n", number, open, strings.Join(lines, "<br/>"), end)
}

// mermaidText writes what has a meaning in the text of a box.
var mermaidText = strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "#", "#35;")
