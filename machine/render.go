package machine

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Mermaid draws the machine as a Mermaid stateDiagram-v2 (K4): one line per row,
// creation first, ends last. The same machine always gives the same text.
func (m *Machine) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	fmt.Fprintf(&b, "    [*] --> %s: %s\n", m.Initial, m.Create)
	for _, t := range m.Transitions() {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", t.From, t.To, t.Event)
	}
	for _, s := range m.Ends {
		fmt.Fprintf(&b, "    %s --> [*]\n", s)
	}
	return b.String()
}

// DOT draws the machine as a Graphviz digraph (K4). Ends have a double border.
func (m *Machine) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n", m.Name)
	b.WriteString("    rankdir=LR;\n    node [shape=box, style=rounded];\n    \"\" [shape=point];\n")
	for _, s := range m.States {
		if m.Ended(s) {
			fmt.Fprintf(&b, "    %q [peripheries=2];\n", s)
		} else {
			fmt.Fprintf(&b, "    %q;\n", s)
		}
	}
	for _, t := range append([]Transition{m.creation()}, m.Transitions()...) {
		fmt.Fprintf(&b, "    %q -> %q [label=%q];\n", t.From, t.To, t.Event)
	}
	b.WriteString("}\n")
	return b.String()
}

// Markdown lists the machine's rows as a Markdown table (K4), creation first.
func (m *Machine) Markdown() string {
	rows := [][]string{
		{"from", "event", "to"},
		{"(new)", string(m.Create), m.label(m.Initial)},
	}
	for _, t := range m.Transitions() {
		rows = append(rows, []string{m.label(t.From), string(t.Event), m.label(t.To)})
	}
	return grid(rows)
}

// label is the state's name, bold where it is an end.
func (m *Machine) label(s State) string {
	if m.Ended(s) {
		return "**" + string(s) + "**"
	}
	return string(s)
}

// Matrix returns every event against every state as a Markdown table (K2): the
// state that the event leads to, "already" where it is refused because it leads
// to the state itself, "-" where it is refused.
func (m *Machine) Matrix() string {
	head := []string{"event"}
	for _, s := range m.States {
		head = append(head, m.label(s))
	}
	rows := [][]string{head}
	for _, e := range m.Events() {
		row := []string{string(e)}
		for _, s := range m.States {
			row = append(row, m.cell(s, e))
		}
		rows = append(rows, row)
	}
	return grid(rows)
}

func (m *Machine) cell(s State, e Event) string {
	if to, ok := m.Table[s][e]; ok {
		return m.label(to)
	}
	if m.leadsTo(e, s) {
		return "already"
	}
	return "-"
}

// grid lays rows out as a Markdown table, the first row as its head, columns
// padded so that it reads as plain text too.
func grid(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	rule := make([]string, len(width))
	for i, w := range width {
		rule[i] = strings.Repeat("-", w)
	}
	var b strings.Builder
	line(&b, rows[0], width)
	line(&b, rule, width)
	for _, row := range rows[1:] {
		line(&b, row, width)
	}
	return b.String()
}

func line(b *strings.Builder, cells []string, width []int) {
	for i, cell := range cells {
		fmt.Fprintf(b, "| %-*s ", width[i], cell)
	}
	b.WriteString("|\n")
}

// document is the JSON form of a machine.
type document struct {
	Name        string       `json:"name"`
	Doc         string       `json:"doc"`
	Create      Event        `json:"create"`
	Initial     State        `json:"initial"`
	States      []State      `json:"states"`
	Ends        []State      `json:"ends"`
	Resident    bool         `json:"resident"`
	Events      []Event      `json:"events"`
	Transitions []Transition `json:"transitions"`
}

// MarshalJSON writes the machine as an object (K4): name, doc, create, initial,
// states, ends, resident, events, and transitions as a list of from, event, to.
// Lists are never null.
func (m *Machine) MarshalJSON() ([]byte, error) {
	return json.Marshal(document{
		Name:        m.Name,
		Doc:         m.Doc,
		Create:      m.Create,
		Initial:     m.Initial,
		States:      append([]State{}, m.States...),
		Ends:        append([]State{}, m.Ends...),
		Resident:    m.Resident,
		Events:      append([]Event{}, m.Events()...),
		Transitions: append([]Transition{}, m.Transitions()...),
	})
}
