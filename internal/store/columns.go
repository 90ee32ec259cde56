package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unsafe"

	"github.com/pawl-dev/pawl"
)

// A Role says when a column is written.
type Role uint8

// The roles of columns.
const (
	Key     Role = iota // names the row
	Fixed               // written once, with the new row
	Moving              // written whenever the record changes
	Derived             // follows from other fields: written with them, and never read back
	Body                // large, and read only on demand; an update with nil keeps the stored value
)

// A Kind is the type of a column's values.
type Kind uint8

// The kinds of columns.
const (
	KindNumber Kind = iota
	KindBool
	KindText
	KindHash // bytes of a fixed length
	KindBlob // bytes of any length; never NULL
	KindUUID // 16 bytes
	KindJSON // text; NULL for nil
	KindTree // bytes; NULL for none
)

// A Column is a field of the record R as it is stored, or a value that From computes if there
// is no such field. Records are written and read column by column. A column holds the offset
// of its field, so access needs no function call.
type Column[R any] struct {
	Name string
	Role Role
	Kind Kind
	From func(*R) int64

	field     field
	offset    uintptr
	length    int  // of bytes
	elsewhere bool // see Elsewhere
}

// A field is the Go type of a column's field.
type field uint8

const (
	noField field = iota
	int64Field
	intField
	int8Field
	boolField
	textField
	bytesField
	blobField
	jsonField
	failureField
	numbersField
	textsField
	treeField
)

// columnOf returns a column for the field whose address at returns.
func columnOf[R, F any](name string, kind Kind, f field, at func(*R) *F) *Column[R] {
	r := new(R)
	offset := uintptr(unsafe.Pointer(at(r))) - uintptr(unsafe.Pointer(r))
	if size := unsafe.Sizeof(*r); offset+unsafe.Sizeof(*at(r)) > size {
		panic("store: column " + name + " is not within its record")
	}
	return &Column[R]{Name: name, Kind: kind, field: f, offset: offset}
}

// Elsewhere returns a copy of c that reads and writes a different record from the one it is
// given: tests use it to simulate a column that was forgotten.
func (c *Column[R]) Elsewhere() *Column[R] {
	b := *c
	b.elsewhere = true
	if c.From != nil {
		b.From = func(*R) int64 { return c.From(new(R)) }
	}
	return &b
}

func (c *Column[R]) at(r *R) unsafe.Pointer {
	if c.elsewhere {
		r = new(R)
	}
	return unsafe.Add(unsafe.Pointer(r), c.offset)
}

// Number returns the value of a column of KindNumber.
func (c *Column[R]) Number(r *R) int64 {
	switch c.field {
	case int64Field:
		return *(*int64)(c.at(r))
	case intField:
		return int64(*(*int)(c.at(r)))
	case int8Field:
		return int64(*(*int8)(c.at(r)))
	}
	return c.From(r)
}

// SetNumber sets the value. A computed column stays unchanged.
func (c *Column[R]) SetNumber(r *R, v int64) {
	switch c.field {
	case int64Field:
		*(*int64)(c.at(r)) = v
	case intField:
		*(*int)(c.at(r)) = int(v)
	case int8Field:
		*(*int8)(c.at(r)) = int8(v)
	}
}

// Bool returns the field of a column of KindBool.
func (c *Column[R]) Bool(r *R) *bool { return (*bool)(c.at(r)) }

// Text returns the field of a column of KindText.
func (c *Column[R]) Text(r *R) *string { return (*string)(c.at(r)) }

// Bytes returns the field of a column of KindHash or KindUUID.
func (c *Column[R]) Bytes(r *R) []byte { return unsafe.Slice((*byte)(c.at(r)), c.length) }

// Blob returns the field of a column of KindBlob. What is read replaces it, and nothing changes its
// bytes.
func (c *Column[R]) Blob(r *R) *[]byte { return (*[]byte)(c.at(r)) }

// Tree returns the field of a column of KindTree.
func (c *Column[R]) Tree(r *R) **pawl.Tree { return (**pawl.Tree)(c.at(r)) }

func (c *Column[R]) json(r *R) *json.RawMessage  { return (*json.RawMessage)(c.at(r)) }
func (c *Column[R]) failure(r *R) **pawl.Failure { return (**pawl.Failure)(c.at(r)) }
func (c *Column[R]) numbers(r *R) *[]int64       { return (*[]int64)(c.at(r)) }
func (c *Column[R]) texts(r *R) *[]string        { return (*[]string)(c.at(r)) }

// Encode returns the value of a column of KindJSON or KindTree; nil means NULL.
func (c *Column[R]) Encode(r *R) ([]byte, error) {
	switch c.field {
	case jsonField:
		return *c.json(r), nil
	case failureField:
		return EncodeFailure(*c.failure(r))
	case numbersField:
		return json.Marshal(*c.numbers(r))
	case treeField:
		return EncodeTree(*c.Tree(r)), nil
	}
	return json.Marshal(*c.texts(r))
}

// Decode sets the field to a value that Encode returned, and keeps b.
func (c *Column[R]) Decode(r *R, b []byte) (err error) {
	switch c.field {
	case jsonField:
		*c.json(r) = b
	case failureField:
		*c.failure(r), err = DecodeFailure(b)
	case numbersField:
		err = json.Unmarshal(b, c.numbers(r))
	case treeField:
		*c.Tree(r), err = DecodeTree(b)
	default:
		err = json.Unmarshal(b, c.texts(r))
	}
	return err
}

// Same reports whether two records are equal in the column. It must not be a body.
func (c *Column[R]) Same(a, b *R) bool {
	switch c.Kind {
	case KindNumber:
		return c.Number(a) == c.Number(b)
	case KindBool:
		return *c.Bool(a) == *c.Bool(b)
	case KindText:
		return *c.Text(a) == *c.Text(b)
	case KindHash, KindUUID:
		return bytes.Equal(c.Bytes(a), c.Bytes(b))
	case KindBlob:
		return bytes.Equal(*c.Blob(a), *c.Blob(b))
	case KindTree:
		return (*c.Tree(a)).Equal(*c.Tree(b))
	}
	if c.field == numbersField {
		return slices.Equal(*c.numbers(a), *c.numbers(b))
	}
	return slices.Equal(*c.texts(a), *c.texts(b))
}

// Nil reports whether the record lacks the body.
func (c *Column[R]) Nil(r *R) bool {
	if c.field == jsonField {
		return *c.json(r) == nil
	}
	return *c.failure(r) == nil
}

// drop removes the body from the record.
func (c *Column[R]) drop(r *R) {
	if c.field == jsonField {
		*c.json(r) = nil
		return
	}
	*c.failure(r) = nil
}

// A Table lists the columns of one kind of record: everything that a store keeps of it.
// Statements, codecs and comparisons are derived from it alone.
type Table[R any] struct {
	Name    string
	Columns []*Column[R] // by role
	bodies  []*Column[R] // of them
	stored  []*Column[R] // those that are fields of the record; at most 64
}

// tableOf returns a table of columns, which are given in the order of their roles.
func tableOf[R any](name string, columns ...[]*Column[R]) *Table[R] {
	t := &Table[R]{Name: name, Columns: slices.Concat(columns...)}
	t.bodies = t.Of(Body)
	t.stored = slices.DeleteFunc(slices.Clone(t.Columns), func(c *Column[R]) bool { return c.From != nil })
	return t
}

// With returns the table extended by derived columns of one store.
func (t *Table[R]) With(derived ...*Column[R]) *Table[R] {
	return tableOf(t.Name, t.Of(Key, Fixed, Moving), derived, t.bodies)
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
	for _, c := range t.bodies {
		c.drop(r)
	}
}

// A Narrow is an update that writes only some of the columns.
type Narrow[R any] struct {
	Columns []*Column[R] // the columns it writes, in the order of the table
	Others  []*Column[R] // columns that it leaves unchanged, though an update may change them; set by Leave

	// The others again, as places in a record, so that most of them are compared without a
	// look at the column.
	numbers, texts []uintptr
	rest           []*Column[R]
}

// Narrow returns the narrow update of the named columns. It panics if a column does not exist
// or never changes.
func (t *Table[R]) Narrow(names ...string) *Narrow[R] {
	n := new(Narrow[R])
	var others []*Column[R]
	for _, c := range t.Of(Moving, Derived, Body) {
		if slices.Contains(names, c.Name) {
			n.Columns = append(n.Columns, c)
		} else {
			others = append(others, c)
		}
	}
	if len(n.Columns) != len(names) {
		panic(fmt.Sprintf("store: not all of %v are moving columns of %s, each once", names, t.Name))
	}
	n.Leave(others)
	return n
}

// Leave sets the columns that the update leaves unchanged.
func (n *Narrow[R]) Leave(others []*Column[R]) {
	n.Others, n.numbers, n.texts, n.rest = others, nil, nil, nil
	for _, c := range others {
		switch {
		case c.Role == Moving && c.field == int64Field && !c.elsewhere:
			n.numbers = append(n.numbers, c.offset)
		case c.Role == Moving && c.field == textField && !c.elsewhere:
			n.texts = append(n.texts, c.offset)
		default:
			n.rest = append(n.rest, c)
		}
	}
}

// Covers reports whether writing the columns of n alone turns a stored record equal to was
// into is.
func (n *Narrow[R]) Covers(was, is *R) bool {
	a, b := unsafe.Pointer(was), unsafe.Pointer(is)
	for _, at := range n.numbers {
		if *(*int64)(unsafe.Add(a, at)) != *(*int64)(unsafe.Add(b, at)) {
			return false
		}
	}
	for _, at := range n.texts {
		if *(*string)(unsafe.Add(a, at)) != *(*string)(unsafe.Add(b, at)) {
			return false
		}
	}
	for _, c := range n.rest {
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
	return slices.ContainsFunc(t.bodies, func(c *Column[R]) bool { return !c.Nil(r) })
}

// DerivedColumn returns a column whose value follows from other fields.
func DerivedColumn[R any](name string, from func(*R) int64) *Column[R] {
	return &Column[R]{Name: name, Role: Derived, From: from}
}

// EncodeFailure returns f in the form of stores, JSON; nil for nil.
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
