package workflow

import (
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/document"
)

// expressionPlace returns the place in the source of the byte at of expression p,
// within the string at path. If the source writes the string in a way that cannot be
// followed, it is the place of the string.
func (e *examiner) expressionPlace(path string, p piece, at int) document.Place {
	start := e.PlaceOf(path)
	text, ok := e.sourceFrom(start)
	if !ok {
		return start
	}
	if !p.expression {
		if i, ok := follow(text, p.text, at); ok {
			return advance(start, text[:i])
		}
		return start
	}
	i := 0
	for n := p.ordinal; ; n-- {
		j := strings.Index(text[i:], "${{")
		if j < 0 {
			return start
		}
		i += j
		if n == 0 {
			break
		}
		i += len("${{")
	}
	here := i + len("${{")
	if j, ok := follow(text[here:], p.text, at); ok {
		return advance(start, text[:here+j])
	}
	return advance(start, text[:i])
}

// follow returns the offset in the source of the byte at of text. It goes line by line,
// since the source may indent and join lines.
func follow(source, text string, at int) (int, bool) {
	offset := 0
	for _, line := range strings.SplitAfter(text, "\n") {
		words := strings.TrimSpace(line)
		i := strings.Index(source[offset:], words)
		if i < 0 || strings.Count(source[offset:offset+i], "\n") > 1 {
			return 0, false
		}
		if at < len(line) || at == len(line) && !strings.HasSuffix(line, "\n") {
			indent := strings.Index(line, words)
			return offset + i + min(max(at-indent, 0), len(words)), true
		}
		offset += i + len(words)
		at -= len(line)
	}
	return offset, at == 0
}

// sourceFrom returns the source from a place on.
func (e *examiner) sourceFrom(at document.Place) (string, bool) {
	if e.lines == nil {
		e.lines = strings.SplitAfter(e.source, "\n")
	}
	if e.source == "" || at.Line == 0 || at.Line > len(e.lines) {
		return "", false
	}
	offset := 0
	for _, l := range e.lines[:at.Line-1] {
		offset += len(l)
	}
	rest := e.source[offset:]
	for range at.Column - 1 {
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	return rest, true
}

// advance returns the place after text that begins at start.
func advance(start document.Place, text string) document.Place {
	lines := strings.Count(text, "\n")
	if lines == 0 {
		return document.Place{Line: start.Line, Column: start.Column + utf8.RuneCountInString(text)}
	}
	return document.Place{Line: start.Line + lines, Column: 1 + utf8.RuneCountInString(text[strings.LastIndexByte(text, '\n')+1:])}
}
