package document

import (
	"regexp"
	"time"
)

// A Shape describes a value of the file. A table of keys is made of shapes; the
// examiner, the JSON Schema and the reference read the same one.
type Shape struct {
	Kind ShapeKind

	Min, Max   int            // bytes of text, elements of a list, entries of a mapping, or the range of a whole number
	Pattern    *regexp.Regexp // of text
	PatternDoc string         // what the pattern asks for: "an id: ..."
	Words      []string       // of text: the only ones allowed
	Reserved   string         // of a key: the beginning that it must not have

	Least, Most time.Duration // of a duration

	Elem   *Shape  // of a list or a mapping
	Key    *Shape  // of a mapping
	Fields []Field // of an object
	Hint   string  // of a shape for several values: the hint for a single value in its place

	OneOf []string // of an object: the keys of which it has exactly one, for the JSON Schema
	Apart []string // keys that it does not have all of, likewise

	Own *Own // of ShapeOwn

	// Also examines what the fields of an object mean together, and completes m.
	Also func(e *Examiner, path string, v *Value, m map[string]any)
}

// Own is what only one kind of files has.
type Own struct {
	// Judge examines a value that is neither null nor broken, as Examine does.
	Judge func(e *Examiner, path string, v *Value, s *Shape) (any, *Judgement)

	Schema  func(m map[string]any, s *Shape) // writes the JSON Schema into m
	Summary func(s *Shape) string            // its values in a few words, for the reference
	StandIn func() any                       // see standIn; nil: it is nil
	Empty   string                           // the hint for a missing value
}

// A Field is one key of an object.
type Field struct {
	Name     string
	Shape    *Shape
	Doc      string
	Default  any        // the normalised default; nil is none
	Required bool       // has to be there
	Fill     bool       // a missing object is filled in with its defaults
	Keep     bool       // a wrong value stays, as a placeholder, since others refer to it
	Stored   bool       // in canonical forms only, not in files
	Barred   *Judgement // why it is refused here though other files have it; nil: it is not refused

	Elsewhere []string // its names in other tools
}

// A ShapeKind is the kind of a shape.
type ShapeKind int

// The kinds of shapes.
const (
	ShapeText     ShapeKind = iota // a string
	ShapeScalar                    // text; numbers and booleans are taken as they are written
	ShapeInteger                   // a whole number
	ShapeBoolean                   // true or false
	ShapeDuration                  // as Go writes it
	ShapeAny                       // any JSON value
	ShapeList
	ShapeMap    // an object with keys of any name
	ShapeObject // an object with known keys
	ShapeOwn    // as Own says
)

func (s *Shape) field(name string) *Field {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	return nil
}

// standIn returns a value of the right type for one that was refused.
func (s *Shape) standIn() any {
	switch s.Kind {
	case ShapeInteger:
		return s.Min
	case ShapeBoolean:
		return false
	case ShapeDuration:
		return s.Least.String()
	case ShapeAny:
		return nil
	case ShapeOwn:
		if s.Own.StandIn == nil {
			return nil
		}
		return s.Own.StandIn()
	case ShapeList:
		return []any{}
	case ShapeMap, ShapeObject:
		return map[string]any{}
	}
	return ""
}
