package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// A cursor reads the values of one row, in binary form and in order. err keeps the first
// fault, and everything after it reads as zero.
type cursor struct {
	vals [][]byte
	at   int
	err  error
}

func (c *cursor) next() []byte {
	if c.at >= len(c.vals) {
		c.fail("row has %d columns only", len(c.vals))
		return nil
	}
	v := c.vals[c.at]
	c.at++
	return v
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("column %d: "+format, append([]any{c.at}, args...)...)
	}
}

// null reports whether the next value is null, without reading it.
func (c *cursor) null() bool { return c.at < len(c.vals) && c.vals[c.at] == nil }

func (c *cursor) num() int64 {
	v := c.next()
	switch len(v) {
	case 0:
		return 0
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	}
	c.fail("%d bytes are no integer", len(v))
	return 0
}

func (c *cursor) int() int { return int(c.num()) }

func (c *cursor) flag() bool {
	v := c.next()
	return len(v) == 1 && v[0] != 0
}

func (c *cursor) text() string {
	s, err := original(c.next())
	if err != nil {
		c.fail("%w", err)
	}
	return s
}

// word reads a text from a fixed vocabulary, such as a state.
func (c *cursor) word() string { return string(c.next()) }

func (c *cursor) blob() []byte {
	v := c.next()
	if v == nil {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}

// fixed reads a value of exactly the length of dst into dst.
func (c *cursor) fixed(dst []byte) {
	v := c.next()
	if len(v) != len(dst) {
		c.fail("%d bytes, want %d", len(v), len(dst))
		return
	}
	copy(dst, v)
}

// place reads a ctid.
func (c *cursor) place() (p place) {
	c.fixed(p[:])
	return p
}

// xid reads the transaction that made a row.
func (c *cursor) xid() xid { return xid(c.num()) }

func (c *cursor) body() json.RawMessage {
	if c.at < len(c.vals) && isQuoted(c.vals[c.at]) {
		return json.RawMessage(c.text())
	}
	return c.blob()
}
