package console

import (
	"bytes"
	"fmt"
	"io"
)

// blockRows is how many rows of a long table are aligned together.
const blockRows = 1000

// A Listing writes values as they arrive, as a table or as the JSON list that writeJSON
// writes. It holds at most one block of rows.
type Listing[T any] struct {
	W    io.Writer
	JSON bool
	Head []string
	Row  func(*T) []string
	rows [][]string
	N    int
}

func (l *Listing[T]) Add(v *T) error {
	l.N++
	if !l.JSON {
		if l.N == 1 {
			l.rows = append(l.rows, l.Head)
		}
		if l.rows = append(l.rows, l.Row(v)); len(l.rows) < blockRows {
			return nil
		}
		return l.block()
	}
	var b bytes.Buffer
	if err := JSON(&b, v); err != nil {
		return err
	}
	before := ",\n  "
	if l.N == 1 {
		before = "[\n  "
	}
	text := bytes.ReplaceAll(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte("\n"), []byte("\n  "))
	_, err := fmt.Fprintf(l.W, "%s%s", before, text)
	return err
}

// End writes the rest. It is not called after an error.
func (l *Listing[T]) End() error {
	switch {
	case !l.JSON:
		return l.block()
	case l.N == 0:
		fmt.Fprint(l.W, "[")
	default:
		fmt.Fprint(l.W, "\n")
	}
	_, err := fmt.Fprintln(l.W, "]")
	return err
}

func (l *Listing[T]) block() error {
	err := Table(l.W, l.rows)
	l.rows = l.rows[:0]
	return err
}

// A Tail passes the last limit of its values to f, or all of them if limit is 0.
type Tail[T any] struct {
	Limit int
	F     func(*T) error
	last  []T
}

func (t *Tail[T]) Add(v T) error {
	if t.Limit == 0 {
		return t.F(&v)
	}
	if t.last = append(t.last, v); len(t.last) > t.Limit {
		t.last = t.last[1:]
	}
	return nil
}

func (t *Tail[T]) End() error {
	for i := range t.last {
		if err := t.F(&t.last[i]); err != nil {
			return err
		}
	}
	return nil
}
