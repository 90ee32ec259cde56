package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// AppendDiff appends the columns, and their values, in which a record differs from the one before it:
// mostly they are much alike. The records are stored, so their values can be encoded.
func (t *Table[R]) AppendDiff(b []byte, r, before *R) []byte {
	var differ uint64
	for i, c := range t.stored {
		if !c.sameWhole(r, before) {
			differ |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, differ)
	for i, c := range t.stored {
		if differ>>i&1 == 0 {
			continue
		}
		switch c.Kind {
		case KindBool: // the other value
		case KindNumber:
			b = binary.AppendVarint(b, c.Number(r)-c.Number(before))
		case KindText:
			b = appendBytes(b, []byte(*c.Text(r)))
		case KindHash, KindUUID:
			b = append(b, c.Bytes(r)...)
		case KindBlob:
			b = appendBytes(b, *c.Blob(r))
		default:
			if v, _ := c.Encode(r); v == nil {
				b = append(b, 0)
			} else {
				b = appendBytes(append(b, 1), v)
			}
		}
	}
	return b
}

// Same reports whether two records are equal in all columns but the bodies.
func (t *Table[R]) Same(a, b *R) bool {
	return !slices.ContainsFunc(t.stored, func(c *Column[R]) bool { return c.Role != Body && !c.Same(a, b) })
}

// sameWhole is Same, also for bodies.
func (c *Column[R]) sameWhole(a, b *R) bool {
	if c.Role != Body {
		return c.Same(a, b)
	}
	x, _ := c.Encode(a)
	y, _ := c.Encode(b)
	return bytes.Equal(x, y) && (x == nil) == (y == nil)
}

func appendBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// ReadDiff reads what AppendDiff has appended, given the record before.
func (t *Table[R]) ReadDiff(p *Parcel, before *R) *R {
	r := new(R)
	*r = *before
	differ := p.Count()
	for i, c := range t.stored {
		if differ>>i&1 == 0 {
			continue
		}
		switch c.Kind {
		case KindBool:
			*c.Bool(r) = !*c.Bool(r)
		case KindNumber:
			c.SetNumber(r, c.Number(before)+p.Num())
		case KindText:
			*c.Text(r) = string(p.Bytes())
		case KindHash, KindUUID:
			copy(c.Bytes(r), p.Take(uint64(c.length)))
		case KindBlob:
			*c.Blob(r) = p.Bytes()
		default:
			var v []byte
			if p.Take(1)[0] == 1 {
				v = slices.Clone(p.Bytes()) // a record does not keep the message
			}
			if p.Err == nil && c.Decode(r, v) != nil {
				p.Fail()
			}
		}
	}
	return r
}

// A Parcel is the rest of a message. Err is set by the first fault, and everything after it reads as
// zero.
type Parcel struct {
	Rest []byte
	Err  error
}

var errParcel = errors.New("a message cannot be read")

// Fail sets Err.
func (p *Parcel) Fail() { p.Rest, p.Err = nil, errParcel }

// Take reads so many bytes.
func (p *Parcel) Take(n uint64) []byte {
	if n > uint64(len(p.Rest)) {
		p.Fail()
		return make([]byte, min(n, 64))
	}
	v := p.Rest[:n:n]
	p.Rest = p.Rest[n:]
	return v
}

// Bytes reads bytes behind their number.
func (p *Parcel) Bytes() []byte { return p.Take(p.Count()) }

// Num reads an integer.
func (p *Parcel) Num() int64 {
	v, n := binary.Varint(p.Rest)
	if n <= 0 {
		p.Fail()
		return 0
	}
	p.Rest = p.Rest[n:]
	return v
}

// Count reads an unsigned integer.
func (p *Parcel) Count() uint64 {
	v, n := binary.Uvarint(p.Rest)
	if n <= 0 {
		p.Fail()
		return 0
	}
	p.Rest = p.Rest[n:]
	return v
}
