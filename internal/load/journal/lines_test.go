package journal

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
)

// TestLinesNeverWait: who shows a run never waits for a reader of its lines. The reader gets
// each change of state, and the newest of the rest may be left out, which a line says.
func TestLinesNeverWait(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe() // nobody reads
	l := NewLines(w)
	for n := range 3 * maxLines {
		l.Put(IntervalLine{Type: TypeInterval, Agents: n}, true)
	}
	l.Put(SummaryLine{Type: TypeSummary}, false)
	closed := make(chan error)
	go func() { closed <- errors.Join(l.Close(), w.Close()) }()
	var types []string
	left := 0
	for lines := json.NewDecoder(r); ; {
		var line struct {
			Type  string
			Lines int
		}
		if err := lines.Decode(&line); err != nil {
			break
		}
		types, left = append(types, line.Type), left+line.Lines
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	summaries := slices.DeleteFunc(slices.Clone(types), func(s string) bool { return s != "summary" })
	intervals := slices.DeleteFunc(types, func(s string) bool { return s != "interval" })
	if len(summaries) != 1 || left == 0 || len(intervals)+left != 3*maxLines {
		t.Errorf("%d summaries, %d intervals and %d left out of %d", len(summaries), len(intervals), left, 3*maxLines)
	}
	failing := NewLines(badWriter{})
	failing.Put(leftOut{}, false)
	if err := failing.Close(); err == nil {
		t.Error("a writer that fails is no error")
	}
}

type badWriter struct{}

func (badWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
