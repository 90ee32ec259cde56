package sqlite

import (
	"fmt"
	"unsafe"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A row binds the parameters of a statement in their order.
type row struct {
	s     *sqlite.Stmt
	args  []any // without a statement, they are collected
	n     int
	bound []value // the values bound so far
	fault error   // a value that cannot be bound
}

// A value is the current binding of a parameter. A statement keeps its bindings, so only
// values that differ from its last use are bound again: most of a row is the same for each
// record of a batch.
type value struct {
	is   kind
	n    int64
	text string
}

type kind uint8

const (
	unknown kind = iota
	null
	integer
	octet // a blob of one byte
	text
)

// keptText bounds the length of texts that are remembered as bound.
const keptText = 64

// next advances to the next parameter and returns its binding.
func (r *row) next() *value {
	if r.n == len(r.bound) {
		r.bound = append(r.bound, value{})
	}
	r.n++
	return &r.bound[r.n-1]
}

func (r *row) int(v int64) {
	if was := r.next(); was.is != integer || was.n != v {
		*was = value{is: integer, n: v}
		if r.s == nil {
			r.args = append(r.args, v)
			return
		}
		r.s.BindInt64(r.n, v)
	}
}

func (r *row) ints(vs ...int64) {
	for _, v := range vs {
		r.int(v)
	}
}

func (r *row) bool(v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	r.int(n)
}

func (r *row) text(v string) {
	was := r.next()
	if was.is == text && was.text == v {
		return
	}
	*was = value{}
	if len(v) <= keptText {
		*was = value{is: text, text: v}
	}
	if r.s == nil {
		r.args = append(r.args, v)
		return
	}
	r.s.BindText(r.n, v)
}

// blob binds a blob. Those of one byte are mostly the same in each row: the tree of a record
// of which nothing was counted out, and an entry that seals nothing.
func (r *row) blob(v []byte) {
	was := r.next()
	if len(v) == 1 {
		if was.is == octet && was.n == int64(v[0]) {
			return
		}
		*was = value{is: octet, n: int64(v[0])}
	} else {
		*was = value{}
	}
	if r.s == nil {
		r.args = append(r.args, append([]byte{}, v...)) // never nil, which would be NULL
		return
	}
	r.s.BindBytes(r.n, v)
}

// bytes binds a blob, NULL if it is empty.
func (r *row) bytes(v []byte) {
	if len(v) > 0 {
		r.blob(v)
		return
	}
	r.null()
}

// any binds an int64 or a string.
func (r *row) any(v any) {
	if n, ok := v.(int64); ok {
		r.int(n)
		return
	}
	r.text(v.(string))
}

// body binds text, NULL if it is nil. SQLite gets a copy, so that a long text needs none
// before.
func (r *row) body(v []byte) {
	switch {
	case v == nil:
		r.null()
	case len(v) <= keptText || r.s == nil:
		r.text(string(v))
	default:
		r.text(unsafe.String(unsafe.SliceData(v), len(v)))
	}
}

func (r *row) null() {
	if was := r.next(); was.is != null {
		*was = value{is: null}
		if r.s == nil {
			r.args = append(r.args, nil)
			return
		}
		r.s.BindNull(r.n)
	}
}

// columns reads the columns of a result row in their order. The first value that cannot be
// read is kept as the fault.
type columns struct {
	s     *sqlite.Stmt
	vals  values // without a statement
	n     int
	fault error
}

// finish returns the fault of this row and forgets it.
func (c *columns) finish() error {
	err := c.fault
	c.fault = nil
	return err
}

func (c *columns) fail(what string, err error) {
	if c.fault == nil {
		c.fault = fmt.Errorf("column %d, %s: %w", c.n, what, err)
	}
}

func (c *columns) int() int64 {
	c.n++
	if c.s == nil {
		return c.vals.int(c.n - 1)
	}
	return c.s.ColumnInt64(c.n - 1)
}

func (c *columns) bool() bool { return c.int() != 0 }

func (c *columns) text() string {
	c.n++
	if c.s == nil {
		return string(c.vals.bytes(c.n - 1))
	}
	return c.s.ColumnText(c.n - 1)
}

func (c *columns) blob() []byte {
	c.n++
	if c.s == nil {
		return c.vals.bytes(c.n - 1)
	}
	b := make([]byte, c.s.ColumnLen(c.n-1))
	c.s.ColumnBytes(c.n-1, b)
	return b
}

// fixed reads a blob of exactly the length of into.
func (c *columns) fixed(into []byte) {
	if c.s == nil {
		if b := c.blob(); len(b) == len(into) {
			copy(into, b)
		} else {
			c.fail("blob", fmt.Errorf("%d bytes, want %d", len(b), len(into)))
		}
		return
	}
	c.n++
	if n := c.s.ColumnLen(c.n - 1); n != len(into) {
		c.fail("blob", fmt.Errorf("%d bytes, want %d", n, len(into)))
		return
	}
	c.s.ColumnBytes(c.n-1, into)
}

// body reads text, nil if it is NULL.
func (c *columns) body() []byte {
	if c.null() {
		c.n++
		return nil
	}
	return c.blob()
}

// null reports whether the next column is NULL, without reading it.
func (c *columns) null() bool {
	if c.s == nil {
		return c.vals[c.n] == nil
	}
	return c.s.ColumnType(c.n) == sqlite.TypeNull
}

// writeColumns binds the columns of a record.
func writeColumns[R any](r *row, list []*store.Column[R], v *R) {
	for _, c := range list {
		switch c.Kind {
		case store.KindNumber:
			r.int(c.Number(v))
		case store.KindBool:
			r.bool(*c.Bool(v))
		case store.KindText:
			r.text(*c.Text(v))
		case store.KindHash, store.KindUUID:
			r.blob(c.Bytes(v))
		case store.KindBlob:
			r.blob(*c.Blob(v))
		case store.KindTree:
			r.bytes(store.EncodeTree(*c.Tree(v)))
		case store.KindJSON:
			b, err := c.Encode(v)
			if r.body(b); err != nil {
				r.fault = fmt.Errorf("column %s: %w", c.Name, err)
			}
		}
	}
}

// readColumns reads columns into a record. A computed key has to equal the stored one.
func readColumns[R any](c *columns, list []*store.Column[R], v *R) {
	for _, col := range list {
		switch col.Kind {
		case store.KindNumber:
			n := c.int()
			col.SetNumber(v, n)
			if col.From != nil && c.fault == nil && col.From(v) != n {
				c.fail("number", fmt.Errorf("%s is %d, want %d", col.Name, n, col.From(v)))
			}
		case store.KindBool:
			*col.Bool(v) = c.bool()
		case store.KindText:
			*col.Text(v) = c.text()
		case store.KindHash, store.KindUUID:
			c.fixed(col.Bytes(v))
		case store.KindBlob:
			*col.Blob(v) = c.blob()
		case store.KindTree:
			if err := col.Decode(v, c.blob()); err != nil {
				c.fail("tree", err)
			}
		case store.KindJSON:
			if err := col.Decode(v, c.body()); err != nil {
				c.fail("json", err)
			}
		}
	}
}

// readPlain reads a record without bodies.
func (t *table[R]) readPlain(c *columns) *R {
	v := new(R)
	readColumns(c, t.read, v)
	return v
}

// readWhole reads a record with bodies.
func (t *table[R]) readWhole(c *columns) *R {
	v := t.readPlain(c)
	readColumns(c, t.bodies, v)
	return v
}

// update writes columns of a record.
func update[R any](c *conn, s statement, t *table[R], list []*store.Column[R], u store.Update[*R]) error {
	return c.run(s, func(r *row) {
		writeColumns(r, list, u.Record)
		writeColumns(r, t.key, u.Record)
		r.int(u.Was)
	})
}

// place returns the key under which the step is indexed: its worker while it is in progress,
// else its route.
func place(s *pawl.Step) int64 {
	if s.State == lifecycle.StepInProgress {
		return int64(s.Worker)
	}
	return int64(s.Route)
}

func (r *row) entry(e *audit.Entry) {
	r.bare(e)
	r.seals(e)
}

// bare binds an entry without its seals.
func (r *row) bare(e *audit.Entry) {
	r.int(e.Sequence)
	r.text(string(e.To))
	r.text(string(e.Event))
	r.text(e.Reason)
	r.text(e.Actor)
	r.text(e.RequestID)
	if len(e.Metadata) == 0 {
		r.body(nil)
	} else {
		r.body(e.Metadata)
	}
	r.int(e.At)
	r.blob(e.Hash[:])
}

func (r *row) seals(e *audit.Entry) {
	var room [256]byte
	r.bytes(e.AppendExtra(room[:0]))
}

// entry reads an entry; the caller sets its Entity and From.
func (c *columns) entry() audit.Entry {
	var e audit.Entry
	e.Sequence = c.int()
	e.To = machine.State(c.text())
	e.Event = machine.Event(c.text())
	e.Reason, e.Actor, e.RequestID = c.text(), c.text(), c.text()
	e.Metadata = c.body()
	e.At = c.int()
	c.fixed(e.Hash[:])
	if err := e.ReadExtra(c.blob()); err != nil {
		c.fail("seals", err)
	}
	return e
}

// entries passes the entries in a row of the trail of jobs and steps to f.
func (c *columns) entries(f func(pawl.Ord, audit.Entry)) {
	ord, e := pawl.Ord(c.int()), c.entry()
	more := c.body()
	if c.fault != nil {
		return
	}
	f(ord, e)
	if err := store.Unpack(more, f); err != nil {
		c.fail("json", err)
	}
}
