package verify

import (
	"fmt"
	"strings"
)

// Text formats a finding for people: where it is, what is wrong, why it matters, what
// to do about it, and the path to it.
func (f Finding) Text(name string) string {
	var b strings.Builder
	if f.File != "" {
		name += " > " + f.File
	}
	if f.Line > 0 {
		name += fmt.Sprintf(":%d:%d", f.Line, f.Column)
	}
	fmt.Fprintf(&b, "%s: %s: ", f.Severity, name)
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Message + "\n")
	line := func(tag, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %s: %s\n", tag, text)
		}
	}
	line("why", f.Why)
	line("hint", f.Hint)
	if len(f.Trace) > 0 {
		b.WriteString("  a path that leads to it:\n")
		for _, r := range f.Trace {
			b.WriteString("    " + r.String() + "\n")
		}
	}
	return b.String()
}

// Text formats a report for people. The name is that of the file.
func (r *Report) Text(name string) string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(f.Text(name))
	}
	fmt.Fprintf(&b, "%s: %s\n", name, r.Summary())
	switch {
	case len(r.Findings) == 0 && r.All:
		fmt.Fprintf(&b, "%s: every step can run, every wait ends, and every output that is used is there\n", name)
	case len(r.Findings) == 0:
		fmt.Fprintf(&b, "%s: nothing was found\n", name)
	default:
		fmt.Fprintf(&b, "%s: %s, %s\n", name, count(r.Count(Err), "error"), count(r.Count(Warn), "warning"))
	}
	return b.String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
