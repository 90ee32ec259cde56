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
	text  []byte
	at    int
	odd   bool
	keeps bool // the values, and not only that they are JSON
}

// ValidJSON reports whether a text is one value of JSON, as json.Valid does.
func ValidJSON(text []byte) bool {
	r := jsonReader{text: text}
	r.value(maxNested)
	return r.ended() || json.Valid(text)
}

// ReadJSON reads one value as encoding/json does, with numbers as json.Number. It returns false if
// the text is odd.
func ReadJSON(text []byte) (v any, ok bool) {
	r := jsonReader{text: text, odd: !utf8.Valid(text), keeps: true}
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
	var all map[string]any
	if r.keeps {
		all = map[string]any{}
	}
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
		v := r.value(deep - 1)
		if r.keeps {
			all[name] = v
		}
		if !r.take(',') {
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
		v := r.value(deep - 1)
		if r.keeps {
			all = append(all, v)
		}
		if !r.take(',') {
			r.want(']')
			break
		}
	}
	return all
}

// string reads a string, at whose quote the reader is. Only one with escapes needs encoding/json.
func (r *jsonReader) string() (s string) {
	from, escapes := r.at, false
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			switch {
			case !r.keeps:
				r.odd = escapes && !json.Valid(r.text[from:r.at])
			case !escapes:
				s = string(r.text[from+1 : r.at-1])
			default:
				r.odd = json.Unmarshal(r.text[from:r.at], &s) != nil
			}
			return s
		case c == '\\':
			escapes = true
			r.at++
		case c < ' ':
			r.odd = true
			return ""
		}
	}
	r.odd = true
	return ""
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
	r.pass("-")
	if whole := r.digits(); len(whole) > 1 && whole[0] == '0' {
		r.odd = true
	}
	if r.pass(".") {
		r.digits()
	}
	if r.pass("eE") {
		r.pass("+-")
		r.digits()
	}
	if !r.keeps {
		return nil
	}
	return json.Number(r.text[from:r.at])
}

// pass passes a character if it is one of these.
func (r *jsonReader) pass(any string) bool {
	if r.at < len(r.text) && bytes.IndexByte([]byte(any), r.text[r.at]) >= 0 {
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
