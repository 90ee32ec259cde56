package exchange

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Limits of what a scan reads.
const (
	maxMembers = 64 // of an object
	maxNested  = 32
	maxDigits  = 15 // of an integer, so that it is the same as a float64
	maxNumber  = 32 // characters of a number within a value
)

// A scan reads JSON in one pass and without reflection, in the form in which programs usually
// write it. What it does not read is odd: wrong, or merely unusual, such as a key with an
// escape, a key that stands twice in an object, or a number with an exponent. Who meets
// something odd reads all of it again with encoding/json, which has the errors.
type scan struct {
	text  []byte
	at    int
	odd   bool
	names [][]byte // of the members so far of the objects that are open
}

// scanOf returns a scan that begins with a text.
func scanOf(text []byte) scan { return scan{text: text, names: make([][]byte, 0, maxMembers/2)} }

// next returns the first character behind white space, or 0 at the end.
func (s *scan) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// take reports whether c is next, and passes it then.
func (s *scan) take(c byte) bool {
	if s.next() != c || s.odd {
		return false
	}
	s.at++
	return true
}

func (s *scan) want(c byte) {
	if !s.take(c) {
		s.odd = true
	}
}

// end reports whether the text was read as a whole, and was not odd.
func (s *scan) end() bool {
	return s.next() == 0 && s.at == len(s.text) && !s.odd && utf8.Valid(s.text)
}

// object calls member at the value of each member.
func (s *scan) object(member func(name []byte)) {
	s.want('{')
	if s.take('}') {
		return
	}
	first := len(s.names)
	for !s.odd {
		name := s.plain()
		s.want(':')
		for _, other := range s.names[first:] {
			s.odd = s.odd || string(other) == string(name)
		}
		if s.odd = s.odd || len(s.names)-first == maxMembers; s.odd {
			return
		}
		s.names = append(s.names, name)
		if member(name); !s.take(',') {
			s.want('}')
			break
		}
	}
	s.names = s.names[:first]
}

// list calls item at each item of an array.
func (s *scan) list(item func()) {
	s.want('[')
	if s.take(']') {
		return
	}
	for !s.odd {
		if item(); !s.take(',') {
			s.want(']')
			return
		}
	}
}

// plain reads a string without escapes.
func (s *scan) plain() []byte {
	text, escapes := s.quoted()
	s.odd = s.odd || escapes
	return text
}

// quoted reads a string, and returns what stands between its quotes.
func (s *scan) quoted() (text []byte, escapes bool) {
	s.want('"')
	for first := s.at; !s.odd; s.at++ {
		s.at += ordinary(s.text[s.at:])
		if s.at >= len(s.text) {
			break
		}
		switch s.text[s.at] {
		case '"':
			s.at++
			return s.text[first : s.at-1], escapes
		case '\\':
			escapes = true
			s.escape()
		default:
			s.odd = true
		}
	}
	s.odd = true
	return nil, escapes
}

// ordinary returns how many characters of a string stand for themselves before one that does not: a
// quote, a backslash, a control character.
func ordinary(text []byte) int {
	for i, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(text)
}

// escape passes an escape, but for its last character.
func (s *scan) escape() {
	s.at++
	switch {
	case s.at >= len(s.text):
		s.odd = true
	case s.text[s.at] == 'u' && s.at+4 < len(s.text):
		_, err := strconv.ParseUint(string(s.text[s.at+1:s.at+5]), 16, 16)
		s.odd = err != nil
		s.at += 4
	case bytes.IndexByte([]byte(`"\/bfnrt`), s.text[s.at]) < 0:
		s.odd = true
	}
}

// string reads a string.
func (s *scan) string() string { return s.alike("") }

// alike reads a string, and returns like if that is the same.
func (s *scan) alike(like string) string {
	from := s.at
	text, escapes := s.quoted()
	switch {
	case !escapes && string(text) == like:
		return like
	case !escapes || s.odd:
		return string(text)
	}
	var decoded string
	if json.Unmarshal(s.text[from:s.at], &decoded) != nil {
		s.odd = true
	}
	return decoded
}

// strings reads a list of strings.
func (s *scan) strings() []string {
	all := []string{}
	s.list(func() { all = append(all, s.string()) })
	return all
}

// digits passes digits, and returns them.
func (s *scan) digits() []byte {
	first := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	all := s.text[first:s.at]
	s.odd = s.odd || len(all) == 0
	return all
}

// whole passes digits of which the first is no idle zero, and returns them.
func (s *scan) whole() []byte {
	all := s.digits()
	s.odd = s.odd || len(all) > 1 && all[0] == '0'
	return all
}

// integer reads an integer without a sign.
func (s *scan) integer() (n int64) {
	s.next()
	digits := s.whole()
	if len(digits) > maxDigits {
		s.odd = true
		return 0
	}
	for _, c := range digits {
		n = 10*n + int64(c-'0')
	}
	return n
}

// within reads an integer from least to most.
func (s *scan) within(least, most int64) int64 {
	n := s.integer()
	s.odd = s.odd || n < least || n > most
	return n
}

func (s *scan) bool() bool {
	if s.next() == 't' {
		s.word("true")
		return !s.odd
	}
	s.word("false")
	return false
}

func (s *scan) word(word string) {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		s.odd = true
		return
	}
	s.at += len(word)
}

// value reads any value, and returns a copy of its text.
func (s *scan) value() json.RawMessage {
	s.next()
	from := s.at
	s.pass(maxNested)
	return bytes.Clone(s.text[from:s.at])
}

// rest reads the value of a member, with encoding/json, into the field of that name.
func (s *scan) rest(name []byte, object any) {
	s.next()
	from := s.at
	if s.pass(maxNested); s.odd {
		return
	}
	member := slices.Concat([]byte(`{"`), name, []byte(`":`), s.text[from:s.at], []byte("}"))
	s.odd = json.Unmarshal(member, object) != nil
}

// pass passes any value that has at most depth levels.
func (s *scan) pass(depth int) {
	c := s.next()
	switch {
	case depth == 0:
		s.odd = true
	case c == '{':
		s.object(func([]byte) { s.pass(depth - 1) })
	case c == '[':
		s.list(func() { s.pass(depth - 1) })
	case c == '"':
		s.quoted()
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.number()
	}
}

// number passes a number without an exponent.
func (s *scan) number() {
	from := s.at
	s.sign('-')
	s.whole()
	if s.sign('.') {
		s.digits()
	}
	s.odd = s.odd || s.at-from > maxNumber
}

// sign passes c if it is the very next character.
func (s *scan) sign(c byte) bool {
	is := s.at < len(s.text) && s.text[s.at] == c
	if is {
		s.at++
	}
	return is
}
