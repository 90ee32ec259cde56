package console

import (
	"fmt"
	"io"

	"github.com/pawl-dev/pawl"
)

// A LogPrinter writes the log of a job, each piece once.
type LogPrinter struct {
	w      io.Writer
	step   string // empty: all
	seen   map[source]int64
	prefix *Prefixer
}

func NewLogPrinter(w io.Writer, step string) *LogPrinter {
	return &LogPrinter{w: w, step: step, seen: make(map[source]int64), prefix: NewPrefixer(w)}
}

// Print writes a piece unless it was written before.
func (p *LogPrinter) Print(l pawl.LogLine) error {
	s := source{l.Step, l.Stream, l.Claim}
	if l.Offset < p.seen[s] {
		return nil
	}
	p.seen[s] = l.Offset + int64(max(1, len(l.Text)))
	if p.step == "" {
		p.prefix.Write(l.Step, l.Stream, l.Claim, l.Text)
		return nil
	}
	_, err := fmt.Fprint(p.w, l.Text)
	return err
}

func (p *LogPrinter) Close() { p.prefix.flush() }
