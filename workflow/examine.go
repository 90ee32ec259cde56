package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// An examiner holds a value against the table of keys. It reports everything
// that is wrong, and answers the normalised value: defaults written out,
// scalars in one form.
type examiner struct {
	file     string
	source   string // for places inside of strings; may be empty
	lines    []string
	problems Problems

	suggested int // names looked for so far; see suggest

	places map[string]place // of values, by path
	keys   map[string]place // of keys, by path

	stored bool   // it is a canonical form, which has more keys than a file
	prefix string // of the keys in problems: where in another definition this one stands

	family   *family
	chain    []string               // the files around this one, and this one
	children map[string]*Definition // by the path of their canonical form
	programs int                    // different expressions of the children
	height   int                    // levels of children below
	below    Problems               // of the children
	refused  bool                   // a child was, which has been reported
}

func newExaminer(file, source string, open Open) *examiner {
	return &examiner{
		file: file, source: source, places: map[string]place{}, keys: map[string]place{},
		family: &family{workflowShape, open, map[string]*Definition{}}, chain: []string{file}, children: map[string]*Definition{},
	}
}

func (e *examiner) report(at place, path, message, hint string) {
	e.problems = append(e.problems, Problem{File: e.file, Line: at.line, Column: at.column, Key: e.prefix + path, Message: message, Hint: hint})
}

// reportAt reports a problem with the value at path, or with the nearest thing
// around it that has a place.
func (e *examiner) reportAt(path, message, hint string) {
	e.report(e.placeOf(path), path, message, hint)
}

// reportKey reports a problem with the key at path.
func (e *examiner) reportKey(path, message, hint string) {
	at, ok := e.keys[path]
	if !ok {
		at = e.placeOf(path)
	}
	e.report(at, path, message, hint)
}

// maxSuggestions bounds the search for names that are near: a file with more
// mistakes than that is not one with slips of the pen.
const maxSuggestions = 200

// suggest answers the hint that names the nearest known name, or "".
func (e *examiner) suggest(name string, known []string) string {
	if e.suggested++; e.suggested > maxSuggestions {
		return ""
	}
	return didYouMean(name, known)
}

func (e *examiner) placeOf(path string) place {
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

// examine answers the normalised value. When ok is false a problem has been
// reported, and the value is a harmless stand-in.
func (e *examiner) examine(path string, v *value, s *shape) (normal any, ok bool) {
	e.places[path] = v.place
	if v.kind == brokenValue {
		return s.standIn(), false
	}
	if v.kind == nullValue {
		e.report(v.place, path, "has no value", emptyHint(s))
		return s.standIn(), false
	}
	normal, fault := e.judge(path, v, s)
	if fault != nil {
		if fault.message != "" {
			e.report(v.place, path, fault.message, fault.hint)
		}
		return s.standIn(), false
	}
	return normal, true
}

func emptyHint(s *shape) string {
	switch s.kind {
	case shapeText, shapeScalar:
		return `write "" for empty text`
	case shapeObject, shapeMap, shapeMatrix:
		return "write {}, or leave the key out"
	case shapeList:
		return "write [], or leave the key out"
	}
	return "leave the key out"
}

// A judgement is why a value is refused; an empty message means that it has
// been reported in detail.
type judgement struct{ message, hint string }

func (j *judgement) err() error {
	if j.hint == "" {
		return errors.New(j.message)
	}
	return fmt.Errorf("%s (%s)", j.message, j.hint)
}

func refused(format string, args ...any) *judgement {
	return &judgement{message: fmt.Sprintf(format, args...)}
}

func (e *examiner) judge(path string, v *value, s *shape) (any, *judgement) {
	switch s.kind {
	case shapeText:
		return judgeText(v, s)
	case shapeScalar:
		return judgeScalar(v, s)
	case shapeInteger:
		return judgeInteger(v, s)
	case shapeBoolean:
		return judgeBoolean(v)
	case shapeDuration:
		return judgeDuration(v, s)
	case shapeCondition:
		return judgeCondition(v)
	case shapeItems:
		if v.kind != listValue && v.kind != textValue {
			return nil, refused("want a list, or an expression ${{ }} that comes to one, got %s", v.kind)
		}
		return e.any(path, v)
	case shapePause:
		return judgePause(v, s)
	case shapeAtom:
		return judgeAtom(v, s)
	case shapeAny:
		return e.any(path, v)
	case shapeList:
		return e.list(path, v, s)
	case shapeMap:
		return e.mapping(path, v, s)
	case shapeMatrix:
		return e.matrix(path, v, s)
	case shapeChild:
		return e.child(path, v, s)
	case shapeDefinition:
		return e.embedded(path, v)
	}
	return e.object(path, v, s)
}

func wrongKind(want string, v *value) *judgement {
	j := refused("want %s, got %s", want, got(v))
	if v.kind == booleanValue || v.kind == numberValue {
		if want == "text" {
			j.hint = "put it in quotes"
		}
	}
	return j
}

// got names a value in an error: short scalars are quoted.
func got(v *value) string {
	switch v.kind {
	case booleanValue, numberValue:
		return string(v.kind) + " " + shorten(v.text)
	case textValue:
		return fmt.Sprintf("text %q", shorten(v.text))
	}
	return string(v.kind)
}

func shorten(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	cut := limit
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func judgeText(v *value, s *shape) (any, *judgement) {
	if v.kind != textValue {
		return nil, wrongKind("text", v)
	}
	return checkText(v.text, s)
}

func judgeScalar(v *value, s *shape) (any, *judgement) {
	if v.kind == listValue || v.kind == objectValue {
		return nil, wrongKind("text", v)
	}
	return checkText(v.text, s)
}

func checkText(text string, s *shape) (any, *judgement) {
	if len(s.words) > 0 {
		for _, w := range s.words {
			if text == w {
				return text, nil
			}
		}
		return nil, &judgement{fmt.Sprintf("%q is not one of %s", shorten(text), strings.Join(s.words, ", ")), didYouMean(text, s.words)}
	}
	if strings.ContainsRune(text, 0) {
		return nil, refused("the text holds a zero byte")
	}
	if len(text) < s.min {
		return nil, refused("the text is empty")
	}
	if s.max > 0 && len(text) > s.max {
		return nil, refused("the text is %d bytes long; at most %d are allowed", len(text), s.max)
	}
	if s.pattern != nil && !s.pattern.MatchString(text) {
		return nil, s.mismatch(text)
	}
	return text, nil
}

// mismatch says what text should look like, and offers what would.
func (s *shape) mismatch(text string) *judgement {
	j := refused("%q is not %s", shorten(text), s.patternDoc)
	better := strings.ReplaceAll(strings.ToLower(text), "-", "_")
	if better != text && s.pattern.MatchString(better) && strings.Contains(s.patternDoc, "a-z") {
		j.hint = fmt.Sprintf("write %q", better)
	}
	return j
}

func judgeInteger(v *value, s *shape) (any, *judgement) {
	if v.kind != numberValue {
		return nil, wrongKind("a whole number", v)
	}
	n, err := parseNumber(v.text)
	if err != nil {
		return nil, refused("%s %v", shorten(v.text), err)
	}
	i, whole := n.(int)
	if !whole {
		return nil, wrongKind("a whole number", v)
	}
	if i < s.min || i > s.max {
		return nil, refused("%d is out of range: %d to %d are allowed", i, s.min, s.max)
	}
	return i, nil
}

func judgeBoolean(v *value) (any, *judgement) {
	if v.kind != booleanValue {
		j := wrongKind("true or false", v)
		switch strings.ToLower(v.text) {
		case "yes", "on", "y":
			j.hint = "write true"
		case "no", "off", "n":
			j.hint = "write false"
		}
		return nil, j
	}
	return strings.EqualFold(v.text, "true"), nil
}

func judgeDuration(v *value, s *shape) (any, *judgement) {
	const form = "write durations as 500ms, 90s, 10m or 1h30m"
	if v.kind == numberValue {
		return nil, &judgement{fmt.Sprintf("the duration %s has no unit", shorten(v.text)), form}
	}
	if v.kind != textValue {
		return nil, wrongKind("a duration", v)
	}
	d, err := time.ParseDuration(v.text)
	if err != nil {
		return nil, &judgement{fmt.Sprintf("%q is not a duration", shorten(v.text)), form}
	}
	if d < s.least || d > s.most {
		return nil, refused("%s is out of range: %s to %s are allowed", d, s.least, s.most)
	}
	return d.String(), nil
}

func judgeCondition(v *value) (any, *judgement) {
	switch v.kind {
	case booleanValue:
		return strings.ToLower(v.text), nil
	case textValue:
		if strings.TrimSpace(v.text) == "" {
			return nil, refused("the expression is empty")
		}
		return v.text, nil
	}
	return nil, wrongKind("an expression", v)
}

// any answers any JSON value.
func (e *examiner) any(path string, v *value) (any, *judgement) {
	e.places[path] = v.place
	switch v.kind {
	case nullValue:
		return nil, nil
	case booleanValue:
		return strings.EqualFold(v.text, "true"), nil
	case textValue:
		return v.text, nil
	case numberValue:
		n, err := parseNumber(v.text)
		if err != nil {
			return nil, &judgement{fmt.Sprintf("%s %v", shorten(v.text), err), "put it in quotes if it is text"}
		}
		return n, nil
	case listValue:
		return e.anyList(path, v)
	case objectValue:
		return e.anyObject(path, v)
	}
	return nil, &judgement{}
}

func (e *examiner) anyList(path string, v *value) (any, *judgement) {
	list := make([]any, len(v.items))
	for i, item := range v.items {
		list[i] = e.anyWithin(fmt.Sprintf("%s[%d]", path, i), item)
	}
	return list, nil
}

func (e *examiner) anyObject(path string, v *value) (any, *judgement) {
	object := make(map[string]any, len(v.entries))
	for _, entry := range v.entries {
		object[entry.key] = e.anyWithin(joinPath(path, entry.key), entry.value)
	}
	return object, nil
}

func (e *examiner) anyWithin(path string, v *value) any {
	normal, fault := e.any(path, v)
	if fault != nil && fault.message != "" {
		e.report(v.place, path, fault.message, fault.hint)
	}
	return normal
}

func (e *examiner) list(path string, v *value, s *shape) (any, *judgement) {
	if v.kind != listValue {
		j := wrongKind("a list", v)
		j.hint = s.listHint(v)
		return nil, j
	}
	if n := len(v.items); n < s.min {
		return nil, refused("the list is empty")
	} else if s.max > 0 && n > s.max {
		return nil, refused("the list has %d elements; at most %d are allowed", n, s.max)
	}
	list := make([]any, len(v.items))
	for i, item := range v.items {
		list[i], _ = e.examine(fmt.Sprintf("%s[%d]", path, i), item, s.elem)
	}
	return list, nil
}

// listHint shows how a lone value is written as a list.
func (s *shape) listHint(v *value) string {
	if v.kind != textValue || s.elem.kind == shapeObject {
		return ""
	}
	return fmt.Sprintf("write [%s]", shorten(strings.Join(strings.Fields(v.text), ", "))) + s.hint
}

func (e *examiner) mapping(path string, v *value, s *shape) (any, *judgement) {
	if v.kind != objectValue {
		return nil, wrongKind("a mapping", v)
	}
	if s.max > 0 && len(v.entries) > s.max {
		return nil, refused("the mapping has %d entries; at most %d are allowed", len(v.entries), s.max)
	}
	m := make(map[string]any, len(v.entries))
	for _, entry := range v.entries {
		at := joinPath(path, entry.key)
		e.keys[at] = entry.place
		if _, fault := checkText(entry.key, s.key); fault != nil {
			e.report(entry.place, at, fault.message, fault.hint)
		} else if s.key.reserved != "" && strings.HasPrefix(entry.key, s.key.reserved) {
			e.report(entry.place, at, fmt.Sprintf("names that begin with %s are set by Pawl", s.key.reserved), "")
		}
		m[entry.key], _ = e.examine(at, entry.value, s.elem)
	}
	return m, nil
}

func (e *examiner) object(path string, v *value, s *shape) (any, *judgement) {
	if v.kind != objectValue {
		return nil, wrongKind("a mapping", v)
	}
	m := map[string]any{}
	for _, entry := range v.entries {
		e.key(path, entry, s, m)
	}
	for i := range s.fields {
		e.absent(path, v, &s.fields[i], m)
	}
	if s.also != nil {
		s.also(e, path, v, m)
	}
	return m, nil
}

// key examines one key of an object.
func (e *examiner) key(path string, entry entry, s *shape, m map[string]any) {
	at := joinPath(path, entry.key)
	e.keys[at] = entry.place
	f := s.field(entry.key)
	switch {
	case f == nil, f.stored && !e.stored:
		e.report(entry.place, at, fmt.Sprintf("unknown key %q", shorten(entry.key)), e.suggestion(entry.key, s))
	case f.barred:
		hint := ""
		if slices.Contains(stepKinds, f.name) {
			hint = "a hook is one of " + strings.Join(workKinds, ", ")
		}
		e.report(entry.place, at, fmt.Sprintf("a hook has no %s", f.name), hint)
	default:
		if normal, ok := e.examine(at, entry.value, f.shape); ok || f.keep {
			m[f.name] = normal
		}
	}
}

// absent writes the default of a key that is not there, or reports that it has
// to be.
func (e *examiner) absent(path string, v *value, f *field, m map[string]any) {
	if v.find(f.name) != nil || f.barred {
		return
	}
	switch {
	case f.required:
		e.report(v.place, path, fmt.Sprintf("%q is missing", f.name), "")
	case f.def != nil:
		m[f.name] = f.def
	case f.fill:
		m[f.name], _ = e.object(joinPath(path, f.name), &value{kind: objectValue, place: v.place}, f.shape)
	}
}

func (e *examiner) suggestion(key string, s *shape) string {
	var known []string
	for _, f := range s.fields {
		if !f.stored && !f.barred {
			known = append(known, f.name)
		}
	}
	if hint := e.suggest(key, known); hint != "" {
		return hint
	}
	return "known are " + strings.Join(known, ", ")
}

// joinPath answers the path of a key below path.
func joinPath(path, key string) string {
	if !plainKey.MatchString(key) {
		return fmt.Sprintf("%s[%q]", path, shorten(key))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
