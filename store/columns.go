package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
)

// A Role says when a column is written.
type Role uint8

// The roles of columns.
const (
	Key     Role = iota // names the row
	Fixed               // written once, with the new row
	Moving              // written whenever the record changes
	Derived             // follows from other fields: written like them, and never read back
	Body                // large, and read only on demand; an update with nil leaves it as it is
)

// A Kind is the type of a column's values.
type Kind uint8

// The kinds of columns.
const (
	KindNumber Kind = iota
	KindBool
	KindText
	KindHash // bytes of a fixed length
	KindUUID // 16 bytes
	KindJSON // text; NULL for nil
	KindTree // bytes; NULL for none
)

// A Column is a field of the record R as it is stored. One of its functions is
// set; it returns where the field is in a record. From is set where there is no
// such field, and computes the value.
type Column[R any] struct {
	Name string
	Role Role
	Kind Kind

	Int64   func(*R) *int64
	Int     func(*R) *int
	Int8    func(*R) *int8
	From    func(*R) int64
	Bool    func(*R) *bool
	Text    func(*R) *string
	Bytes   func(*R) []byte
	JSON    func(*R) *json.RawMessage
	Failure func(*R) **pawl.Failure
	Numbers func(*R) *[]int64
	Texts   func(*R) *[]string
	Tree    func(*R) **pawl.Tree
}

// Number returns the value of a column of KindNumber.
func (c *Column[R]) Number(r *R) int64 {
	switch {
	case c.Int64 != nil:
		return *c.Int64(r)
	case c.Int != nil:
		return int64(*c.Int(r))
	case c.Int8 != nil:
		return int64(*c.Int8(r))
	}
	return c.From(r)
}

// SetNumber sets it. One that is computed stays as it is.
func (c *Column[R]) SetNumber(r *R, v int64) {
	switch {
	case c.Int64 != nil:
		*c.Int64(r) = v
	case c.Int != nil:
		*c.Int(r) = int(v)
	case c.Int8 != nil:
		*c.Int8(r) = int8(v)
	}
}

// Encode returns the value of a column of KindJSON or KindTree; nil stands for NULL.
func (c *Column[R]) Encode(r *R) ([]byte, error) {
	switch {
	case c.JSON != nil:
		return *c.JSON(r), nil
	case c.Failure != nil:
		return EncodeFailure(*c.Failure(r))
	case c.Numbers != nil:
		return json.Marshal(*c.Numbers(r))
	case c.Tree != nil:
		return EncodeTree(*c.Tree(r)), nil
	}
	return json.Marshal(*c.Texts(r))
}

// Decode sets it to what Encode has returned, and keeps b.
func (c *Column[R]) Decode(r *R, b []byte) (err error) {
	switch {
	case c.JSON != nil:
		*c.JSON(r) = b
	case c.Failure != nil:
		*c.Failure(r), err = DecodeFailure(b)
	case c.Numbers != nil:
		err = json.Unmarshal(b, c.Numbers(r))
	case c.Tree != nil:
		*c.Tree(r), err = DecodeTree(b)
	default:
		err = json.Unmarshal(b, c.Texts(r))
	}
	return err
}

// Same reports whether two records are equal in the column, which is no body.
func (c *Column[R]) Same(a, b *R) bool {
	switch {
	case c.Kind == KindNumber:
		return c.Number(a) == c.Number(b)
	case c.Bool != nil:
		return *c.Bool(a) == *c.Bool(b)
	case c.Text != nil:
		return *c.Text(a) == *c.Text(b)
	case c.Bytes != nil:
		return bytes.Equal(c.Bytes(a), c.Bytes(b))
	case c.Numbers != nil:
		return slices.Equal(*c.Numbers(a), *c.Numbers(b))
	case c.Tree != nil:
		return (*c.Tree(a)).Equal(*c.Tree(b))
	}
	return slices.Equal(*c.Texts(a), *c.Texts(b))
}

// Nil reports whether the record does not have the body.
func (c *Column[R]) Nil(r *R) bool {
	if c.JSON != nil {
		return *c.JSON(r) == nil
	}
	return *c.Failure(r) == nil
}

// A Table is the columns of one kind of record, which are everything that a store
// keeps of it. Statements, codecs and comparisons are made from it alone.
type Table[R any] struct {
	Name    string
	Columns []*Column[R] // by role
}

// With returns the table with derived columns of a store's own.
func (t *Table[R]) With(derived ...*Column[R]) *Table[R] {
	return &Table[R]{t.Name, slices.Concat(t.Of(Key, Fixed, Moving), derived, t.Of(Body))}
}

// Of returns the columns with these roles.
func (t *Table[R]) Of(roles ...Role) (list []*Column[R]) {
	for _, c := range t.Columns {
		if slices.Contains(roles, c.Role) {
			list = append(list, c)
		}
	}
	return list
}

// Bare drops the bodies of a record.
func (t *Table[R]) Bare(r *R) {
	for _, c := range t.Columns {
		switch {
		case c.Role != Body:
		case c.JSON != nil:
			*c.JSON(r) = nil
		default:
			*c.Failure(r) = nil
		}
	}
}

// A Narrow is the columns of a narrow update: one that writes only them.
type Narrow[R any] struct {
	Columns []*Column[R] // what it writes, in the order of the table
	Others  []*Column[R] // what it leaves as it is, though an update may change it
}

// Narrow returns the narrow update of these columns. It panics if there is no
// such column, or if it never changes.
func (t *Table[R]) Narrow(names ...string) *Narrow[R] {
	n := new(Narrow[R])
	for _, c := range t.Of(Moving, Derived, Body) {
		if slices.Contains(names, c.Name) {
			n.Columns = append(n.Columns, c)
		} else {
			n.Others = append(n.Others, c)
		}
	}
	if len(n.Columns) != len(names) {
		panic(fmt.Sprintf("store: not all of %v are moving columns of %s, each once", names, t.Name))
	}
	return n
}

// Covers reports whether nothing but the columns of n has to be written, so that
// a stored record that was like this becomes like that.
func (n *Narrow[R]) Covers(was, is *R) bool {
	for _, c := range n.Others {
		if c.Role == Body {
			if !c.Nil(is) {
				return false
			}
		} else if !c.Same(was, is) {
			return false
		}
	}
	return true
}

// HasBodies reports whether the record has a body.
func (t *Table[R]) HasBodies(r *R) bool {
	return slices.ContainsFunc(t.Columns, func(c *Column[R]) bool { return c.Role == Body && !c.Nil(r) })
}

// DerivedColumn returns a column whose value follows from other fields.
func DerivedColumn[R any](name string, from func(*R) int64) *Column[R] {
	return &Column[R]{Name: name, Role: Derived, From: from}
}

// EncodeFailure answers f as stores keep it, JSON; nil for nil.
func EncodeFailure(f *pawl.Failure) ([]byte, error) {
	if f == nil {
		return nil, nil
	}
	return json.Marshal(f)
}

// DecodeFailure reads what EncodeFailure wrote; nil for nothing.
func DecodeFailure(b []byte) (*pawl.Failure, error) {
	if len(b) == 0 {
		return nil, nil
	}
	f := &pawl.Failure{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, err
	}
	return f, nil
}
