package console

import (
	"bytes"
	"io"
	"regexp"
	"strings"
)

// sgr matches the sequences that set the colour and weight of text in a terminal.
var sgr = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// sequence matches all other terminal commands: control sequences, and texts for the terminal
// itself, such as its title.
var sequence = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b]*(\x07|\x1b\\\\)?|[ -/]*[0-~])")

// Sanitize returns what a terminal shows of a line that a step printed: the final text of the
// line if it was overwritten, with its colours if colours is set, and without anything that
// moves the cursor or lasts beyond the line.
func Sanitize(line string, colours bool) string {
	line = line[strings.LastIndexByte(line, '\r')+1:]
	var b strings.Builder
	at := 0
	for _, m := range sgr.FindAllStringIndex(line, -1) {
		b.WriteString(plain(line[at:m[0]]))
		if colours {
			b.WriteString(line[m[0]:m[1]])
		}
		at = m[1]
	}
	b.WriteString(plain(line[at:]))
	if at > 0 && colours {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

func plain(s string) string { return Printable(sequence.ReplaceAllString(s, "")) }

// A Sanitizer sanitizes the text for a terminal, line by line.
type Sanitizer struct {
	W        io.Writer
	Sanitize func(line string) string
	part     []byte // a line without an end yet
}

func (t *Sanitizer) Write(p []byte) (int, error) {
	t.part = append(t.part, p...)
	for {
		line, rest, whole := bytes.Cut(t.part, []byte("\n"))
		if !whole && len(t.part) < maxPartial {
			return len(p), nil
		}
		t.part = rest
		if err := t.line(line); err != nil {
			return 0, err
		}
	}
}

func (t *Sanitizer) line(line []byte) error {
	_, err := io.WriteString(t.W, t.Sanitize(strings.TrimSuffix(string(line), "\r"))+"\n")
	return err
}

// Flush writes the line that never ended.
func (t *Sanitizer) Flush() error {
	if len(t.part) == 0 {
		return nil
	}
	line := t.part
	t.part = nil
	return t.line(line)
}
