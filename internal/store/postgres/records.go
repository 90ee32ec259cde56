package postgres

import (
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
)

// writeColumns adds the values of columns of a record.
func writeColumns[R any](r *rows, list []*store.Column[R], v *R) (err error) {
	for _, c := range list {
		switch c.Kind {
		case store.KindNumber:
			r.num(c.Number(v))
		case store.KindBool:
			r.flag(*c.Bool(v))
		case store.KindText:
			r.text(*c.Text(v))
		case store.KindHash, store.KindUUID:
			r.blob(c.Bytes(v))
		case store.KindBlob:
			r.blob(append([]byte{}, *c.Blob(v)...)) // not nil, which would be NULL
		case store.KindTree:
			r.blob(store.EncodeTree(*c.Tree(v)))
		case store.KindJSON:
			b, fault := c.Encode(v)
			if r.body(b); fault != nil {
				err = fault
			}
		}
	}
	return err
}

// readColumns reads the values of columns into a record.
func readColumns[R any](c *cursor, list []*store.Column[R], v *R) {
	for _, col := range list {
		switch col.Kind {
		case store.KindNumber:
			col.SetNumber(v, c.num())
		case store.KindBool:
			*col.Bool(v) = c.flag()
		case store.KindText:
			*col.Text(v) = c.text()
		case store.KindHash, store.KindUUID:
			c.fixed(col.Bytes(v))
		case store.KindBlob:
			*col.Blob(v) = c.blob()
		case store.KindTree:
			if err := col.Decode(v, c.next()); err != nil {
				c.fail("%w", err)
			}
		case store.KindJSON:
			if err := col.Decode(v, c.body()); err != nil {
				c.fail("%w", err)
			}
		}
	}
}

// read reads a record without bodies: the columns plain.
func (t *table[R]) read(c *cursor) *R {
	v := new(R)
	readColumns(c, t.readOf, v)
	return v
}

// readWhole reads a record with bodies: the columns whole.
func (t *table[R]) readWhole(c *cursor) *R {
	v := t.read(c)
	readColumns(c, t.bodiesOf, v)
	return v
}

// rowsOf collects new rows.
func (t *table[R]) rowsOf(list []*R) (*rows, error) {
	return t.collect(collect(t.fresh, len(list)), list)
}

// newRows does the same. Each value of a single row is a parameter, and the columns in which several
// have the same value are known.
func (t *table[R]) newRows(room *room, list []*R) (*rows, error) {
	r := collect(t.fresh, len(list))
	r.room, r.flat, r.pick = room, len(list) == 1, len(list) > 1
	return t.collect(r, list)
}

func (t *table[R]) collect(r *rows, list []*R) (_ *rows, err error) {
	for _, v := range list {
		err = errors.Join(err, writeColumns(r, t.freshOf, v))
	}
	return r, err
}

// addChange adds a change of a row: its key, its old version, and all columns.
func (t *table[R]) addChange(r *rows, v *R, was int64) error {
	err := writeColumns(r, t.keyOf, v)
	r.num(was)
	return errors.Join(err, writeColumns(r, t.changesOf, v))
}

func (r *rows) entries(p store.Packed) {
	r.num(int64(p.Job))
	r.num(int64(p.Ord))
	r.entryRest(p.Entry)
	if p.More == nil {
		r.null()
	} else {
		r.blob(p.More)
	}
}

// longEntry writes an entry of an entity of a kind that lives long.
func (r *rows) longEntry(e *store.Entry) {
	r.num(int64(e.Job))
	r.entryRest(e)
}

func (r *rows) entryRest(e *store.Entry) {
	r.num(e.Sequence)
	r.text(string(e.To))
	r.text(string(e.Event))
	r.text(e.Reason)
	r.text(e.Actor)
	r.text(e.RequestID)
	r.blob(e.Metadata)
	r.num(e.At)
	r.blob(e.Hash[:])
	var room [256]byte
	if extra := e.AppendExtra(room[:0]); len(extra) > 0 {
		r.blob(extra)
	} else {
		r.null()
	}
}

// entry reads an audit entry from its sequence on; the caller sets Entity and From.
func (c *cursor) entry() audit.Entry {
	var e audit.Entry
	e.Sequence = c.num()
	e.To = machine.State(c.word())
	e.Event = machine.Event(c.text())
	e.Reason = c.text()
	e.Actor = c.text()
	e.RequestID = c.text()
	e.Metadata = c.blob()
	e.At = c.num()
	c.fixed(e.Hash[:])
	if err := e.ReadExtra(c.next()); err != nil {
		c.fail("%w", err)
	}
	return e
}

// entries reads the entries of a row of the trail of jobs and steps, from its ord on.
func (c *cursor) entries(f func(pawl.Ord, audit.Entry)) {
	ord, e := pawl.Ord(c.num()), c.entry()
	more := c.next()
	if c.err != nil {
		return
	}
	f(ord, e)
	if err := store.Unpack(more, f); err != nil {
		c.fail("%w", err)
	}
}
