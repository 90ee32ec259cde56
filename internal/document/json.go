package document

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxNested is how deep a jsonReader reads.
const maxNested = 100

// A jsonReader reads JSON in one pass, at a small part of what encoding/json takes for values that
// are mostly text. What it does not read is odd: wrong, or merely unusual. encoding/json reads that
// again, and has the errors.
type jsonReader struct {
	text []byte
	at   int
	odd  bool
}

// ValidJSON reports whether a text is one value of JSON, as json.Valid does, and sooner if it is a
// string.
func ValidJSON(text []byte) bool {
	if len(text) == 0 || text[0] != '"' {
		return json.Valid(text)
	}
	r := jsonReader{text: text}
	r.quoted()
	return r.ended()
}

// ReadJSON reads one value as encoding/json does, with numbers as json.Number. It returns false if
// the text is odd.
func ReadJSON(text []byte) (v any, ok bool) {
	r := jsonReader{text: text, odd: !utf8.Valid(text)}
	v = r.value(maxNested)
	return v, r.ended()
}

// ended reports whether nothing follows, and nothing was odd.
func (r *jsonReader) ended() bool { return r.next() == 0 && r.at == len(r.text) && !r.odd }

// next returns the first character behind white space, or 0 at the end.
func (r *jsonReader) next() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// take reports whether c is next, and passes it then.
func (r *jsonReader) take(c byte) bool {
	if r.odd || r.next() != c {
		return false
	}
	r.at++
	return true
}

func (r *jsonReader) want(c byte) {
	if !r.take(c) {
		r.odd = true
	}
}

// value reads a value that is nested at most so deep.
func (r *jsonReader) value(deep int) any {
	if deep == 0 {
		r.odd = true
	}
	switch c := r.next(); {
	case r.odd:
		return nil
	case c == '{':
		return r.object(deep)
	case c == '[':
		return r.list(deep)
	case c == '"':
		return r.string()
	case c == 't':
		return r.word("true", true)
	case c == 'f':
		return r.word("false", false)
	case c == 'n':
		return r.word("null", nil)
	}
	return r.number()
}

func (r *jsonReader) object(deep int) any {
	all := map[string]any{}
	if r.at++; r.take('}') {
		return all
	}
	for !r.odd {
		if r.next() != '"' {
			r.odd = true
			break
		}
		name := r.string()
		r.want(':')
		if all[name] = r.value(deep - 1); !r.take(',') {
			r.want('}')
			break
		}
	}
	return all
}

func (r *jsonReader) list(deep int) any {
	all := []any{} // an empty list is not null
	if r.at++; r.take(']') {
		return all
	}
	for !r.odd {
		if all = append(all, r.value(deep-1)); !r.take(',') {
			r.want(']')
			break
		}
	}
	return all
}

// string reads a string, at whose quote the reader is.
func (r *jsonReader) string() (s string) {
	from := r.at
	text, escapes, unicode := r.quoted()
	switch {
	case r.odd:
	case unicode:
		r.odd = json.Unmarshal(r.text[from:r.at], &s) != nil
	case escapes:
		s = unescaped(text)
	default:
		s = string(text)
	}
	return s
}

// quoted passes a string, and returns what stands between its quotes, and whether it has escapes, of
// which some may be those of Unicode.
func (r *jsonReader) quoted() (text []byte, escapes, unicode bool) {
	from := r.at + 1
	for r.at = from; r.at < len(r.text) && !r.odd; r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[from : r.at-1], escapes, unicode
		case c == '\\':
			escapes = true
			unicode = r.escape() || unicode
		case c < ' ':
			r.odd = true
		}
	}
	r.odd = true
	return nil, false, false
}

// escape passes an escape but for its last character, and reports whether it is one of Unicode.
func (r *jsonReader) escape() (unicode bool) {
	if r.at++; r.at == len(r.text) {
		r.odd = true
		return false
	}
	switch r.text[r.at] {
	case 'u':
		for range 4 {
			if r.at++; r.at == len(r.text) || !isHex(r.text[r.at]) {
				r.odd = true
				break
			}
		}
		return true
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	default:
		r.odd = true
	}
	return false
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// unescaped replaces escapes of one character.
func unescaped(text []byte) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' {
			i++
			switch c = text[i]; c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			}
		}
		out = append(out, c)
	}
	return string(out)
}

func (r *jsonReader) word(word string, v any) any {
	if !bytes.HasPrefix(r.text[r.at:], []byte(word)) {
		r.odd = true
	}
	r.at += len(word)
	return v
}

func (r *jsonReader) number() any {
	from := r.at
	r.pass('-')
	if whole := r.digits(); len(whole) > 1 && whole[0] == '0' {
		r.odd = true
	}
	if r.pass('.') {
		r.digits()
	}
	if r.pass('e') || r.pass('E') {
		if !r.pass('+') {
			r.pass('-')
		}
		r.digits()
	}
	return json.Number(r.text[from:r.at])
}

// pass passes a character if it is c.
func (r *jsonReader) pass(c byte) bool {
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

// digits passes digits, of which there is at least one, and returns them.
func (r *jsonReader) digits() []byte {
	from := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	r.odd = r.odd || r.at == from
	return r.text[from:r.at]
}
