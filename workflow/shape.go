package workflow

import (
	"regexp"
	"time"
)

// A shape says what a value of the file looks like. The table of keys (table.go)
// is made of shapes; the examiner and the JSON Schema read the same table.
type shape struct {
	kind shapeKind

	min, max   int            // bytes of text, elements of a list, entries of a mapping, or the range of a whole number
	pattern    *regexp.Regexp // of text
	patternDoc string         // what the pattern asks for: "an id: ..."
	words      []string       // of text: the only ones allowed
	reserved   string         // of a key: the beginning that it must not have

	least, most time.Duration // of a duration

	elem   *shape  // of a list or a mapping
	key    *shape  // of a mapping
	fields []field // of an object
	hint   string  // of a list, when a lone value stands in its place

	// also examines what the fields of an object mean together, and completes m.
	also func(e *examiner, path string, v *value, m map[string]any)
}

// A field is one key of an object.
type field struct {
	name     string
	shape    *shape
	doc      string
	def      any  // the normalised default; nil is none
	required bool // has to be there
	fill     bool // an object that is written out with its defaults when it is not there
	keep     bool // stays, as a stand-in, when it is wrong: others refer to it
	stored   bool // stands in canonical forms only: a file does not have it
	barred   bool // known from elsewhere, and refused here
}

type shapeKind int

const (
	shapeText       shapeKind = iota // a string
	shapeScalar                      // text; numbers and booleans are taken as they are written
	shapeInteger                     // a whole number
	shapeBoolean                     // true or false
	shapeDuration                    // as Go writes it
	shapeCondition                   // an expression, or true or false
	shapeItems                       // a list, or an expression
	shapePause                       // a duration, or text with expressions
	shapeAtom                        // text, a number or a boolean, that keeps its type
	shapeMatrix                      // axes: a mapping of names to lists, or a list of objects
	shapeChild                       // a reference to a workflow: text, or an object
	shapeDefinition                  // a whole workflow, canonical
	shapeAny                         // any JSON value
	shapeList
	shapeMap    // an object with keys of any name
	shapeObject // an object with known keys
)

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// standIn answers a value of the right type for one that was refused.
func (s *shape) standIn() any {
	switch s.kind {
	case shapeInteger:
		return s.min
	case shapeBoolean:
		return false
	case shapeDuration:
		return s.least.String()
	case shapeAny, shapeItems, shapeAtom, shapeDefinition:
		return nil
	case shapeList, shapeMatrix:
		return []any{}
	case shapeMap, shapeObject, shapeChild:
		return map[string]any{}
	}
	return ""
}
