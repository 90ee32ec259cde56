package console

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// A source is one stream of one attempt of a step.
type source struct {
	step   string
	stream string
	claim  int
}

// A Prefixer writes lines of several sources, each whole and prefixed with the key of its
// step. It is safe for concurrent use.
type Prefixer struct {
	w        io.Writer
	Sanitize func(line string) string // what a terminal shows of a line; nil: all of it

	mu      sync.Mutex // guards the fields below, and w
	partial map[source]string
}

func NewPrefixer(w io.Writer) *Prefixer {
	return &Prefixer{w: w, partial: make(map[source]string)}
}

// maxPartial bounds what is kept of a line without an end, in bytes.
const maxPartial = 64 << 10

// Write takes a piece of output. It writes each line once the line is complete.
func (p *Prefixer) Write(step, stream string, claim int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := source{step, stream, claim}
	text = p.partial[s] + text
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole && len(text) < maxPartial {
			break
		}
		p.line(s, line)
		text = rest
	}
	if p.partial[s] = text; text == "" {
		delete(p.partial, s)
	}
}

func (p *Prefixer) line(s source, text string) {
	text = strings.TrimSuffix(text, "\r")
	if p.Sanitize != nil {
		text = p.Sanitize(text)
	}
	fmt.Fprintf(p.w, "%s | %s\n", s.step, text)
}

// flush writes the lines that never ended.
func (p *Prefixer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []source
	for s := range p.partial {
		left = append(left, s)
	}
	slices.SortFunc(left, func(a, b source) int {
		return strings.Compare(a.step+"\x00"+a.stream, b.step+"\x00"+b.stream)
	})
	for _, s := range left {
		p.line(s, p.partial[s])
	}
	clear(p.partial)
}
