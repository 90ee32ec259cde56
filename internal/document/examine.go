package document

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An Examiner checks a value against the table of keys. It reports all faults, and
// returns the normalised value: with defaults, and scalars in one form.
type Examiner struct {
	File     string
	Problems Problems

	suggested int // names searched so far; see Suggest

	places map[string]Place // of values, by path
	Keys   map[string]Place // of keys, by path

	Stored bool   // it is a canonical form, which has more keys than a file
	Prefix string // of the keys in problems: the place of this document in another

	Owner any // for Own.Judge and Also
}

// NewExaminer returns an examiner of a file, or of a value without one.
func NewExaminer(file string) *Examiner {
	return &Examiner{File: file, places: map[string]Place{}, Keys: map[string]Place{}}
}

// Report reports a problem at a place of the source.
func (e *Examiner) Report(at Place, path, message, hint string) {
	e.Problems = append(e.Problems, Problem{File: e.File, Line: at.Line, Column: at.Column, Key: e.Prefix + path, Message: message, Hint: hint})
}

// ReportAt reports a problem with the value at path, or with the nearest thing
// around it that has a place.
func (e *Examiner) ReportAt(path, message, hint string) {
	e.Report(e.PlaceOf(path), path, message, hint)
}

// ReportKey reports a problem with the key at path.
func (e *Examiner) ReportKey(path, message, hint string) {
	at, ok := e.Keys[path]
	if !ok {
		at = e.PlaceOf(path)
	}
	e.Report(at, path, message, hint)
}

// maxSuggestions bounds the search for near names: a file with more mistakes has not
// just typing errors.
const maxSuggestions = 200

// Suggest returns the hint that names the nearest known name, or "".
func (e *Examiner) Suggest(name string, known []string) string {
	if e.suggested++; e.suggested > maxSuggestions {
		return ""
	}
	return DidYouMean(name, known)
}

// PlaceOf returns the place of the value at path, or of the nearest thing around
// it that has one.
func (e *Examiner) PlaceOf(path string) Place {
	for p := path; ; {
		if at, ok := e.places[p]; ok {
			return at
		}
		i := strings.LastIndexAny(p, ".[")
		if i < 0 {
			return e.places[""]
		}
		p = p[:i]
	}
}

// Examine returns the normalised value. If ok is false, a problem has been reported,
// and the value is a placeholder.
func (e *Examiner) Examine(path string, v *Value, s *Shape) (normal any, ok bool) {
	e.places[path] = v.Place
	if v.Kind == Broken {
		return s.standIn(), false
	}
	if v.Kind == Null {
		e.Report(v.Place, path, "has no value", emptyHint(s))
		return s.standIn(), false
	}
	normal, fault := e.judge(path, v, s)
	if fault != nil {
		if fault.Message != "" {
			e.Report(v.Place, path, fault.Message, fault.Hint)
		}
		return s.standIn(), false
	}
	return normal, true
}

func emptyHint(s *Shape) string {
	if s.Hint != "" && s.Kind != ShapeList {
		return s.Hint
	}
	switch s.Kind {
	case ShapeText, ShapeScalar:
		return `write "" for empty text`
	case ShapeObject, ShapeMap:
		return "write {}, or leave the key out"
	case ShapeList:
		return "write [], or leave the key out"
	case ShapeOwn:
		return cmp.Or(s.Own.Empty, "leave the key out")
	}
	return "leave the key out"
}

func (e *Examiner) judge(path string, v *Value, s *Shape) (any, *Judgement) {
	switch s.Kind {
	case ShapeText:
		return judgeText(v, s)
	case ShapeScalar:
		return judgeScalar(v, s)
	case ShapeInteger:
		return judgeInteger(v, s)
	case ShapeBoolean:
		return judgeBoolean(v)
	case ShapeDuration:
		return JudgeDuration(v, s)
	case ShapeAny:
		return e.Any(path, v)
	case ShapeList:
		return e.list(path, v, s)
	case ShapeMap:
		return e.mapping(path, v, s)
	case ShapeOwn:
		return s.Own.Judge(e, path, v, s)
	}
	return e.Object(path, v, s)
}

// Any returns any JSON value.
func (e *Examiner) Any(path string, v *Value) (any, *Judgement) {
	e.places[path] = v.Place
	switch v.Kind {
	case Null:
		return nil, nil
	case Boolean:
		return strings.EqualFold(v.Text, "true"), nil
	case Text:
		return v.Text, nil
	case Number:
		n, err := ParseNumber(v.Text)
		if err != nil {
			return nil, &Judgement{fmt.Sprintf("%s %v", Shorten(v.Text), err), "put it in quotes if it is text"}
		}
		return n, nil
	case List:
		return e.anyList(path, v)
	case Object:
		return e.anyObject(path, v)
	}
	return nil, &Judgement{}
}

func (e *Examiner) anyList(path string, v *Value) (any, *Judgement) {
	list := make([]any, len(v.Items))
	for i, item := range v.Items {
		list[i] = e.anyWithin(fmt.Sprintf("%s[%d]", path, i), item)
	}
	return list, nil
}

func (e *Examiner) anyObject(path string, v *Value) (any, *Judgement) {
	object := make(map[string]any, len(v.Entries))
	for _, entry := range v.Entries {
		object[entry.Key] = e.anyWithin(JoinPath(path, entry.Key), entry.Value)
	}
	return object, nil
}

func (e *Examiner) anyWithin(path string, v *Value) any {
	normal, fault := e.Any(path, v)
	if fault != nil && fault.Message != "" {
		e.Report(v.Place, path, fault.Message, fault.Hint)
	}
	return normal
}

func (e *Examiner) list(path string, v *Value, s *Shape) (any, *Judgement) {
	if v.Kind != List {
		j := WrongKind("a list", v)
		j.Hint = s.listHint(v)
		return nil, j
	}
	if n := len(v.Items); n < s.Min {
		return nil, Refused("the list is empty")
	} else if s.Max > 0 && n > s.Max {
		return nil, Refused("the list has %d elements; at most %d are allowed", n, s.Max)
	}
	list := make([]any, len(v.Items))
	for i, item := range v.Items {
		list[i], _ = e.Examine(fmt.Sprintf("%s[%d]", path, i), item, s.Elem)
	}
	return list, nil
}

// listHint shows how a lone value is written as a list.
func (s *Shape) listHint(v *Value) string {
	if v.Kind != Text && v.Kind != Number || s.Elem.Kind == ShapeObject {
		return ""
	}
	return fmt.Sprintf("write [%s]", Shorten(strings.Join(strings.Fields(v.Text), ", "))) + s.Hint
}

func (e *Examiner) mapping(path string, v *Value, s *Shape) (any, *Judgement) {
	if v.Kind != Object {
		j := WrongKind("a mapping", v)
		j.Hint = s.Hint
		return nil, j
	}
	if len(v.Entries) < s.Min {
		return nil, Refused("the mapping is empty")
	}
	if s.Max > 0 && len(v.Entries) > s.Max {
		return nil, Refused("the mapping has %d entries; at most %d are allowed", len(v.Entries), s.Max)
	}
	m := make(map[string]any, len(v.Entries))
	for _, entry := range v.Entries {
		at := JoinPath(path, entry.Key)
		e.Keys[at] = entry.Place
		if _, fault := CheckText(entry.Key, s.Key); fault != nil {
			e.Report(entry.Place, at, fault.Message, fault.Hint)
		} else if s.Key.Reserved != "" && strings.HasPrefix(entry.Key, s.Key.Reserved) {
			e.Report(entry.Place, at, fmt.Sprintf("names that begin with %s are set by Pawl", s.Key.Reserved), "")
		}
		m[entry.Key], _ = e.Examine(at, entry.Value, s.Elem)
	}
	return m, nil
}

// Object examines an object as Examine does, for any kind of shape.
func (e *Examiner) Object(path string, v *Value, s *Shape) (any, *Judgement) {
	if v.Kind != Object {
		j := WrongKind("a mapping", v)
		j.Hint = s.Hint
		return nil, j
	}
	m := map[string]any{}
	for _, entry := range v.Entries {
		e.key(path, entry, s, m)
	}
	for i := range s.Fields {
		e.absent(path, v, &s.Fields[i], m)
	}
	if s.Also != nil {
		s.Also(e, path, v, m)
	}
	return m, nil
}

// key examines one key of an object.
func (e *Examiner) key(path string, entry Entry, s *Shape, m map[string]any) {
	at := JoinPath(path, entry.Key)
	e.Keys[at] = entry.Place
	f := s.field(entry.Key)
	switch {
	case f == nil, f.Stored && !e.Stored:
		e.Report(entry.Place, at, fmt.Sprintf("unknown key %q", Shorten(entry.Key)), e.suggestion(entry.Key, s))
	case f.Barred != nil:
		e.Report(entry.Place, at, f.Barred.Message, f.Barred.Hint)
	default:
		if normal, ok := e.Examine(at, entry.Value, f.Shape); ok || f.Keep {
			m[f.Name] = normal
		}
	}
}

// absent writes the default of a missing key, or reports that it is required.
func (e *Examiner) absent(path string, v *Value, f *Field, m map[string]any) {
	if v.Find(f.Name) != nil || f.Barred != nil {
		return
	}
	switch {
	case f.Required:
		e.Report(v.Place, path, fmt.Sprintf("%q is missing", f.Name), "")
	case f.Default != nil:
		m[f.Name] = f.Default
	case f.Fill:
		m[f.Name], _ = e.Object(JoinPath(path, f.Name), &Value{Kind: Object, Place: v.Place}, f.Shape)
	}
}

func (e *Examiner) suggestion(key string, s *Shape) string {
	var known []string
	for _, f := range s.Fields {
		if f.Stored || f.Barred != nil {
			continue
		}
		if slices.Contains(f.Elsewhere, key) {
			return fmt.Sprintf("it is called %q here", f.Name)
		}
		known = append(known, f.Name)
	}
	if hint := e.Suggest(key, known); hint != "" {
		return hint
	}
	return "known: " + strings.Join(known, ", ")
}

// plainKey is what a path shows as it is.
var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// JoinPath returns the path of a key below path.
func JoinPath(path, key string) string {
	if !plainKey.MatchString(key) {
		return fmt.Sprintf("%s[%q]", path, Shorten(key))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
