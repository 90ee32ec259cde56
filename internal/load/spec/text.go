package spec

import (
	"fmt"
	"strings"
)

// Text returns the size as a file would have it, in one line.
func (s *Size) Text() string {
	switch {
	case s.Uniform != nil:
		return fmt.Sprintf("{uniform: {min: %s, max: %s}}", SizeText(s.Uniform.Min), SizeText(s.Uniform.Max))
	case s.Lognormal != nil:
		l := s.Lognormal
		return fmt.Sprintf("{lognormal: {mean: %s, deviation: %s, min: %s, max: %s}}", SizeText(l.Mean), SizeText(l.Deviation), SizeText(l.Min), SizeText(l.Max))
	case len(s.List) > 0:
		var all []string
		for _, w := range s.List {
			all = append(all, fmt.Sprintf("{size: %s, weight: %d}", SizeText(w.Size), w.Weight))
		}
		return "{list: [" + strings.Join(all, ", ") + "]}"
	}
	return SizeText(s.Fixed)
}

// Text returns the operation as a file would have it, in one line.
func (o *Operation) Text() string {
	text := fmt.Sprintf("{operation: %s, files: %s, weight: %d", o.Kind, o.Files, o.Weight)
	if o.Kind.HasData() && !o.Whole() {
		text += ", block: " + o.Block.Text()
	}
	if o.Kind.ordered() {
		text += ", access: " + o.Access.text()
	}
	return text + "}"
}

func (a Access) text() string {
	if a.Pattern == Zipf {
		return fmt.Sprintf("{zipf: %v}", a.Theta)
	}
	return string(a.Pattern)
}

// ordered reports whether operations of the kind have an order of access.
func (k Kind) ordered() bool { return k != Create && k != Mkdir }
