package main

import (
	"bytes"
	"fmt"
	"io"
)

// blockRows is how many rows of a long table have their columns aligned together.
const blockRows = 1000

// A listing writes values as they come, as a table or as the JSON list that writeJSON
// writes, and holds a block of rows at most.
type listing[T any] struct {
	w    io.Writer
	json bool
	head []string
	row  func(*T) []string
	rows [][]string
	n    int
}

func (l *listing[T]) add(v *T) error {
	l.n++
	if !l.json {
		if l.n == 1 {
			l.rows = append(l.rows, l.head)
		}
		if l.rows = append(l.rows, l.row(v)); len(l.rows) < blockRows {
			return nil
		}
		return l.block()
	}
	var b bytes.Buffer
	if err := writeJSON(&b, v); err != nil {
		return err
	}
	before := ",\n  "
	if l.n == 1 {
		before = "[\n  "
	}
	text := bytes.ReplaceAll(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte("\n"), []byte("\n  "))
	_, err := fmt.Fprintf(l.w, "%s%s", before, text)
	return err
}

// end writes what is left. It is not called after an error.
func (l *listing[T]) end() error {
	switch {
	case !l.json:
		return l.block()
	case l.n == 0:
		fmt.Fprint(l.w, "[")
	default:
		fmt.Fprint(l.w, "\n")
	}
	_, err := fmt.Fprintln(l.w, "]")
	return err
}

func (l *listing[T]) block() error {
	err := writeTable(l.w, l.rows)
	l.rows = l.rows[:0]
	return err
}

// A tail hands the last values that it is given to f, all of them where limit is 0.
type tail[T any] struct {
	limit int
	f     func(*T) error
	last  []T
}

func (t *tail[T]) add(v T) error {
	if t.limit == 0 {
		return t.f(&v)
	}
	if t.last = append(t.last, v); len(t.last) > t.limit {
		t.last = t.last[1:]
	}
	return nil
}

func (t *tail[T]) end() error {
	for i := range t.last {
		if err := t.f(&t.last[i]); err != nil {
			return err
		}
	}
	return nil
}
