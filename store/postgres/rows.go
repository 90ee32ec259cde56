package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// arrayOID answers the type of the elements of an array, by the type's name.
var arrayOID = map[string]uint32{"bool": 16, "bytea": 17, "bigint": 20, "text": 25, "uuid": 2950, "tid": 27}

// rows collects records column by column, in PostgreSQL's binary form of
// arrays: one parameter per column, whatever the number of rows. Values are
// added in the order of the columns.
type rows struct {
	cols []array
	at   int
}

// An array is the elements of one column: each its length (or -1) and bytes.
type array struct {
	oid   uint32
	n     int
	nulls bool
	buf   []byte // from the header on
}

const arrayHeader = 20

func collect(cs []column, n int) *rows {
	r := &rows{cols: make([]array, len(cs))}
	for i, c := range cs {
		size := 12
		if c.typ != "bigint" {
			size = 24
		}
		r.cols[i] = array{oid: arrayOID[c.typ], buf: make([]byte, arrayHeader, arrayHeader+n*size)}
	}
	return r
}

// len answers how many rows there are.
func (r *rows) len() int { return r.cols[0].n }

func (r *rows) next() *array {
	c := &r.cols[r.at]
	r.at++
	if r.at == len(r.cols) {
		r.at = 0
	}
	c.n++
	return c
}

func (r *rows) num(v int64) {
	c := r.next()
	c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

func (r *rows) flag(v bool) {
	c := r.next()
	c.buf = binary.BigEndian.AppendUint32(c.buf, 1)
	if v {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
}

// text adds a string, made storable; see storable.
func (r *rows) text(s string) {
	s = storable(s)
	c := r.next()
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(s)))
	c.buf = append(c.buf, s...)
}

// body adds JSON as a text that keeps its bytes, or null for nil.
func (r *rows) body(b []byte) {
	switch {
	case b == nil:
	case plain(b):
		c := r.next()
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(b)))
		c.buf = append(c.buf, b...)
		return
	default:
		r.text(string(b))
		return
	}
	r.null()
}

// blob adds bytes as they are, or null for nil.
func (r *rows) blob(b []byte) {
	if b == nil {
		r.null()
		return
	}
	c := r.next()
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(b)))
	c.buf = append(c.buf, b...)
}

func (r *rows) null() {
	c := r.next()
	c.nulls = true
	c.buf = binary.BigEndian.AppendUint32(c.buf, 0xffffffff)
}

// params answers one parameter per column.
func (r *rows) params() [][]byte {
	out := make([][]byte, len(r.cols), len(r.cols)+1)
	for i := range r.cols {
		out[i] = r.cols[i].finish()
	}
	return out
}

// finish fills the header in: dimensions, nulls, type, length, lower bound.
func (a *array) finish() []byte {
	h := a.buf[:arrayHeader]
	binary.BigEndian.PutUint32(h, 1)
	if a.nulls {
		binary.BigEndian.PutUint32(h[4:], 1)
	}
	binary.BigEndian.PutUint32(h[8:], a.oid)
	binary.BigEndian.PutUint32(h[12:], uint32(a.n))
	binary.BigEndian.PutUint32(h[16:], 1)
	if a.n == 0 {
		binary.BigEndian.PutUint32(h, 0)
		return h[:12]
	}
	return a.buf
}

// nums answers one bigint[] parameter.
func nums[N ~int64](vs []N) []byte {
	r := collect([]column{{typ: "bigint"}}, len(vs))
	for _, v := range vs {
		r.num(int64(v))
	}
	return r.params()[0]
}

// texts answers one text[] parameter.
func texts[S ~string](vs []S) []byte {
	r := collect([]column{{typ: "text"}}, len(vs))
	for _, v := range vs {
		r.text(string(v))
	}
	return r.params()[0]
}

// truth answers one bool parameter.
func truth(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// num answers one bigint parameter.
func num(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// PostgreSQL's text holds neither NUL nor bytes that are not UTF-8. A string
// with any is stored quoted behind this byte, which valid JSON and sensible
// names do not begin with; so what comes out is what went in.
const quoted = "\x01"

func storable(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) && !strings.HasPrefix(s, quoted) {
		return s
	}
	return quoted + strconv.QuoteToASCII(s)
}

// plain reports whether a text is storable as it is.
func plain(b []byte) bool {
	return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) && !bytes.HasPrefix(b, []byte(quoted))
}

func original(b []byte) (string, error) {
	if len(b) == 0 || b[0] != quoted[0] {
		return string(b), nil
	}
	s, err := strconv.Unquote(string(b[1:]))
	if err != nil {
		return "", fmt.Errorf("text %q: %w", b, err)
	}
	return s, nil
}
