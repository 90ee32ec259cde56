package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// A Problem is one fault of a file.
type Problem struct {
	File    string // as it was given; empty for what was built in Go
	Line    int    // from 1; 0 where there is no source
	Column  int    // from 1, in characters
	Key     string // where in the file: steps[2].retry.base; empty for the whole
	Message string
	Hint    string // what to do about it, or empty
}

// String returns "file:line:column: key: message (hint)", without the parts
// that are not known.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems is the error of a file that is refused: all its faults, in the order of the
// file. It is of kind pawl.Invalid.
type Problems []Problem

// maxShown bounds the text of Problems; the list itself has them all.
const maxShown = 100

func (ps Problems) Error() string {
	lines := make([]string, 0, min(len(ps), maxShown)+1)
	for _, p := range ps[:min(len(ps), maxShown)] {
		lines = append(lines, p.String())
	}
	if more := len(ps) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// As makes errors.As find a *pawl.Error of kind Invalid.
func (ps Problems) As(target any) bool {
	e, ok := target.(**pawl.Error)
	if ok {
		*e = pawl.Errorf(pawl.Invalid, "%s", ps.Error())
	}
	return ok
}

// Sort puts the problems into the order of the file.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// DidYouMean returns the hint that names the nearest known name, or "".
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}
