package main

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

// A prefixer writes lines of several sources, each whole and behind the key of
// its step. It may be used from several goroutines.
type prefixer struct {
	w    io.Writer
	tame func(line string) string // what a terminal is shown of a line; nil: all

	mu      sync.Mutex // guards what follows, and w
	partial map[source]string
}

func newPrefixer(w io.Writer) *prefixer {
	return &prefixer{w: w, partial: make(map[source]string)}
}

// maxPartial bounds what is kept of a line that does not end, in bytes.
const maxPartial = 64 << 10

// write takes a piece of output. A line is written once it is whole.
func (p *prefixer) write(step, stream string, claim int, text string) {
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

func (p *prefixer) line(s source, text string) {
	text = strings.TrimSuffix(text, "\r")
	if p.tame != nil {
		text = p.tame(text)
	}
	fmt.Fprintf(p.w, "%s | %s\n", s.step, text)
}

// flush writes the lines that never ended.
func (p *prefixer) flush() {
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
