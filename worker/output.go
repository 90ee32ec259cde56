package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// A capture keeps what is written to it up to a limit, and drops the rest.
type capture struct {
	limit int
	buf   []byte
	size  int64 // of all that was written
}

func (c *capture) Write(p []byte) (int, error) {
	room := min(c.limit-len(c.buf), len(p))
	c.buf = append(c.buf, p[:room]...)
	c.size += int64(len(p))
	return len(p), nil
}

// A source is the bytes from which an output is made, at most limit of them, with a
// name for errors.
type source struct {
	name  string
	bytes []byte
	size  int64 // of everything, including what was dropped
	least bool  // there may have been more than size
	limit int
}

// output makes the output of the mode. The note is a line for the log, or empty.
func (s source) output(mode workflow.OutputMode) (r Result, note string) {
	if mode == workflow.OutputNone {
		return Result{Output: json.RawMessage("null")}, ""
	}
	if s.size > int64(s.limit) {
		return Result{Failure: s.tooLarge()}, ""
	}
	text, note := s.text()
	switch mode {
	case workflow.OutputJSON:
		r = s.json(text)
	case workflow.OutputLines:
		r = s.lines(text)
	default:
		r = encoded(s.name, string(bytes.TrimSuffix(text, []byte("\n"))), s.limit)
	}
	return r, note
}

// text returns the bytes as UTF-8.
func (s source) text() (text []byte, note string) {
	if utf8.Valid(s.bytes) {
		return s.bytes, ""
	}
	return bytes.ToValidUTF8(s.bytes, []byte("\uFFFD")), s.name + " is not valid UTF-8; invalid bytes were replaced by U+FFFD"
}

func (s source) json(text []byte) Result {
	if len(bytes.TrimSpace(text)) == 0 {
		return Result{Failure: permanent("invalid_output", "%s is empty; want one JSON value", s.name)}
	}
	var value json.RawMessage
	if err := json.Unmarshal(text, &value); err != nil { // the error of Compact has no offset
		return Result{Failure: invalidJSON(s.name, text, err)}
	}
	var b bytes.Buffer
	_ = json.Compact(&b, value) // it is valid
	return limited(s.name, b.Bytes(), s.limit)
}

func invalidJSON(name string, text []byte, err error) *pawl.Failure {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return permanent("invalid_output", "%s is not JSON: %v", name, err)
	}
	before := text[:min(max(int(syntax.Offset)-1, 0), len(text))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return permanent("invalid_output", "%s is not JSON: line %d, column %d: %v", name, line, column, syntax)
}

// lines makes a list of the lines. It encodes them one by one.
func (s source) lines(text []byte) Result {
	b := bytes.NewBufferString("[")
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		_ = e.Encode(string(line)) // a string, to memory
		b.Truncate(b.Len() - 1)    // the newline of Encode
		text = rest
	}
	b.WriteByte(']')
	return limited(s.name, b.Bytes(), s.limit)
}

// encoded makes v the output.
func encoded(name string, v any, limit int) Result {
	b, err := marshal(v)
	if err != nil {
		return Result{Failure: permanent("invalid_output", "%s cannot be written as JSON: %s", name, bounded(err.Error(), maxMessage))}
	}
	return limited(name, b, limit)
}

func limited(name string, output []byte, limit int) Result {
	if len(output) > limit {
		return Result{Failure: tooLarge(fmt.Sprintf("%s has %d bytes as JSON", name, len(output)), limit)}
	}
	return Result{Output: output}
}

func (s source) tooLarge() *pawl.Failure {
	size := "%s has %d bytes"
	if s.least {
		size = "%s has at least %d bytes"
	}
	return tooLarge(fmt.Sprintf(size, s.name, s.size), s.limit)
}

func tooLarge(what string, limit int) *pawl.Failure {
	return pawl.TooLarge(what, limit, "set `output: none` if nothing needs it")
}

// marshal writes v as JSON, without the escapes that HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
