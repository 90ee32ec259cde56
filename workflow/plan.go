package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// Levels answers the nodes in levels: those without needs first, then each
// level needs only nodes of the levels before it.
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
		for len(levels) < of(n) {
			levels = append(levels, nil)
		}
		levels[of(n)-1] = append(levels[of(n)-1], n)
	}
	return levels
}

// Tree draws the steps as text: what runs first at the top, and below it, one
// line each, the levels that wait for it.
//
//	nightly (3 steps, at most 10 at once)
//	1  extract   command
//	2  load      run      foreach  after extract
//	3  report    http     if       after load
func (d *Definition) Tree() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, at most %d at once)\n", d.Name, counted(len(d.Nodes), "step"), d.Workers)
	idWidth, kindWidth, markWidth := 0, 0, 0
	for i := range d.Nodes {
		n := &d.Nodes[i]
		idWidth, kindWidth, markWidth = max(idWidth, len(n.ID)), max(kindWidth, len(n.label())), max(markWidth, len(n.marks()))
	}
	for i, level := range d.Levels() {
		for j, n := range level {
			number := ""
			if j == 0 {
				number = fmt.Sprint(i + 1)
			}
			node := &d.Nodes[n-1]
			line := fmt.Sprintf("%-3s %-*s  %-*s  %-*s  %s", number, idWidth, node.ID, kindWidth, node.label(), markWidth, node.marks(), d.after(node))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// label names what runs the node.
func (n *Node) label() string {
	if n.Kind == KindHandler {
		return n.Handler
	}
	return string(n.Kind)
}

func (n *Node) marks() string {
	var marks []string
	if n.HasIf {
		marks = append(marks, "if")
	}
	if n.HasForeach {
		marks = append(marks, "foreach")
	}
	if n.Parallel > 0 {
		marks = append(marks, fmt.Sprintf("parallel %d", n.Parallel))
	}
	return strings.Join(marks, ", ")
}

func (d *Definition) after(n *Node) string {
	if len(n.Needs) == 0 {
		return ""
	}
	ids := make([]string, len(n.Needs))
	for i, need := range n.Needs {
		ids[i] = d.Nodes[need-1].ID
	}
	return "after " + strings.Join(ids, ", ")
}

// Mermaid draws the steps as a Mermaid flowchart. An id may be a word of
// Mermaid, so nodes are numbered.
func (d *Definition) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range d.Nodes {
		n := &d.Nodes[i]
		text := n.ID + "<br/>" + n.label()
		if marks := n.marks(); marks != "" {
			text += "<br/>" + marks
		}
		open, end := "[", "]"
		if n.HasForeach {
			open, end = "[[", "]]"
		}
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i+1, open, text, end)
	}
	for i := range d.Nodes {
		for _, need := range slices.Sorted(slices.Values(d.Nodes[i].Needs)) {
			fmt.Fprintf(&b, "  n%d --> n%d\n", need, i+1)
		}
	}
	return b.String()
}
