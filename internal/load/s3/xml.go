package s3

import (
	"bytes"
	"html"
	"iter"
)

// elements yields the texts of all elements of a name in a document. Documents of stores are flat where
// this is used: no element contains another one of its name.
func elements(b []byte, name string) iter.Seq[string] {
	begin, end := []byte("<"+name+">"), []byte("</"+name+">")
	return func(yield func(string) bool) {
		for {
			_, rest, ok := bytes.Cut(b, begin)
			if !ok {
				return
			}
			text, rest, ok := bytes.Cut(rest, end)
			if !ok || !yield(html.UnescapeString(string(text))) {
				return
			}
			b = rest
		}
	}
}

// element returns the text of the first element of a name, or "".
func element(b []byte, name string) string {
	for text := range elements(b, name) {
		return text
	}
	return ""
}
