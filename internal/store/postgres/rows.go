package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// arrayOID returns the type of the elements of an array, by the type's name.
var arrayOID = map[string]uint32{"bool": 16, "bytea": 17, "bigint": 20, "text": 25, "uuid": 2950, "tid": 27, "xid": 28}

// rows collects records column by column, in PostgreSQL's binary form of arrays: one parameter
// per column, whatever the number of rows. Values are added in the order of the columns.
type rows struct {
	spec []column
	room *room   // nil: it allocates
	hint int     // expected number of rows
	more int     // expected bytes of the column of that name in a row
	cols []array // nil until the first value: many statements have no rows
	at   int
	flat bool // few rows, each value a parameter: one array holds them all
	pick bool // it notices the columns in which all rows have the same value; see alike
}

// An array is the elements of one column: each its length (or -1) and bytes.
type array struct {
	oid   uint32
	n     int
	nulls bool
	same  bool   // all elements are the same, and buf has only the first
	buf   []byte // from the header on
}

// longest is the length up to which a value is compared with the one before it. Longer ones are
// bodies, which mostly differ.
const longest = 64

const arrayHeader = 20

func collect(cs []column, n int) *rows { return &rows{spec: cs, hint: n} }

// open allocates the columns, which share one block.
func (r *rows) open() {
	size := 0
	if r.flat {
		for _, c := range r.spec {
			size += r.hint * r.width(c)
		}
		r.cols = []array{{buf: r.room.bytes(size)[:0]}}
		return
	}
	for _, c := range r.spec {
		size += arrayHeader + r.hint*r.width(c)
	}
	block := r.room.bytes(size)
	r.cols = make([]array, len(r.spec))
	for i, c := range r.spec {
		n := arrayHeader + r.hint*r.width(c)
		r.cols[i] = array{oid: arrayOID[c.typ], same: r.pick, buf: block[:arrayHeader:n]}
		block = block[n:]
	}
}

// width returns the approximate size of an element in bytes, with its length.
func (r *rows) width(c column) int {
	if c.name == more {
		return r.more
	}
	return width(c)
}

func width(c column) int {
	switch c.typ {
	case "bigint":
		return 12
	case "bytea": // mostly a hash
		return 36
	case "bool":
		return 5
	case "tid":
		return 10
	}
	return 20
}

// len returns how many rows there are.
func (r *rows) len() int {
	switch {
	case r.cols == nil:
		return 0
	case r.flat:
		return r.cols[0].n / len(r.spec)
	}
	return r.cols[0].n
}

func (r *rows) next() *array {
	if r.cols == nil {
		r.open()
	}
	c := &r.cols[r.at]
	c.n++
	if r.at++; r.at == len(r.cols) {
		r.at = 0
	}
	return c
}

func (r *rows) num(v int64) { r.next().num(v) }

func (r *rows) xid(v xid) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(v))
	r.next().bytes(b[:])
}

func (r *rows) flag(v bool) {
	if v {
		r.next().bytes([]byte{1})
	} else {
		r.next().bytes([]byte{0})
	}
}

// text adds a string in storable form; see storable.
func (r *rows) text(s string) { r.next().text(s) }

// body adds JSON as a text that keeps its bytes, or null for nil.
func (r *rows) body(b []byte) {
	switch c := r.next(); {
	case b == nil:
		c.null()
	case plain(b):
		c.bytes(b)
	default:
		c.text(string(b))
	}
}

// blob adds bytes as they are, or null for nil.
func (r *rows) blob(b []byte) {
	if c := r.next(); b == nil {
		c.null()
	} else {
		c.bytes(b)
	}
}

func (r *rows) null() { r.next().null() }

// params returns one array per column.
func (r *rows) params() [][]byte {
	if r.cols == nil {
		r.open()
	}
	out := make([][]byte, len(r.cols), len(r.cols)+1)
	for i := range r.cols {
		out[i] = r.cols[i].finish()
	}
	return out
}

// alike returns the set of the columns that have the same value in all rows. At least one is not
// among them, so that an array says how many rows there are.
func (r *rows) alike() (same columnSet) {
	for i := range min(len(r.cols), maxColumns) {
		if r.cols[i].same {
			same |= 1 << i
		}
	}
	if n := len(r.cols) - 1; same == 1<<len(r.cols)-1 {
		same &^= 1 << n
	}
	return same
}

// split returns one parameter per column: of those in the set, which are alike, the value.
func (r *rows) split(same columnSet) [][]byte {
	out := make([][]byte, len(r.cols))
	for i := range r.cols {
		if c := &r.cols[i]; same.has(i) {
			out[i] = c.value()
		} else {
			out[i] = c.finish()
		}
	}
	return out
}

// appendValues appends one parameter per value, of flat rows one after the other.
func (r *rows) appendValues(out [][]byte) [][]byte {
	for b := r.cols[0].buf; len(b) > 0; {
		size := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if size < 0 {
			out = append(out, nil)
			continue
		}
		out = append(out, b[:size:size])
		b = b[size:]
	}
	return out
}

func (a *array) num(v int64) {
	if a.same && a.n > 1 {
		if b := a.buf[arrayHeader:]; len(b) == 4+8 && binary.BigEndian.Uint64(b[4:]) == uint64(v) {
			return
		}
		a.differs(a.n - 1)
	}
	a.buf = binary.BigEndian.AppendUint32(a.buf, 8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
}

func (a *array) bytes(b []byte) {
	if a.same && repeats(a, b) {
		return
	}
	a.grow(4 + len(b))
	a.buf = append(binary.BigEndian.AppendUint32(a.buf, uint32(len(b))), b...)
}

// grow makes room for n bytes. It at least doubles the room: bodies are longer than expected, and
// append alone would copy those of one transaction several times.
func (a *array) grow(n int) {
	if free := cap(a.buf) - len(a.buf); free < n {
		a.buf = slices.Grow(a.buf, max(n, cap(a.buf)))
	}
}

func (a *array) text(s string) {
	s = storable(s)
	if a.same && repeats(a, s) {
		return
	}
	a.buf = append(binary.BigEndian.AppendUint32(a.buf, uint32(len(s))), s...)
}

func (a *array) null() {
	if a.same && a.n > 1 {
		if a.nulls {
			return
		}
		a.differs(a.n - 1)
	}
	a.nulls = true
	a.buf = binary.BigEndian.AppendUint32(a.buf, 0xffffffff)
}

// repeats reports whether the next element, which is not null, is the same as all before it.
func repeats[T string | []byte](a *array, v T) bool {
	switch {
	case a.n == 1:
		a.same = len(v) <= longest
		return false
	case !a.nulls && string(a.buf[arrayHeader+4:]) == string(v):
		return true
	}
	a.differs(a.n - 1)
	return false
}

// differs writes out the first n elements, which are the same, since another one is not.
func (a *array) differs(n int) {
	first := a.buf[arrayHeader:]
	for range n - 1 {
		a.buf = append(a.buf, first...)
	}
	a.same = false
}

// value returns the value that all elements have, or nil if they are null.
func (a *array) value() []byte {
	if a.nulls {
		return nil
	}
	return a.buf[arrayHeader+4:]
}

// finish completes the header: dimensions, nulls, type, length, lower bound.
func (a *array) finish() []byte {
	if a.same && a.n > 1 {
		a.differs(a.n)
	}
	h := a.buf[:arrayHeader]
	binary.BigEndian.PutUint32(h, 1)
	binary.BigEndian.PutUint32(h[4:], 0)
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

// literals returns one array per column, as the server reads them from text.
func (r *rows) literals() []any {
	if r.cols == nil {
		r.open()
	}
	list := make([]any, len(r.cols), len(r.cols)+1)
	for i := range r.cols {
		list[i] = r.cols[i].literal()
	}
	return list
}

// literal writes the elements as text.
func (a *array) literal() string {
	b := []byte{'{'}
	for at := arrayHeader; at < len(a.buf); {
		if at > arrayHeader {
			b = append(b, ',')
		}
		size := int32(binary.BigEndian.Uint32(a.buf[at:]))
		if at += 4; size < 0 {
			b = append(b, "NULL"...)
			continue
		}
		b = appendElement(b, a.oid, a.buf[at:at+int(size)])
		at += int(size)
	}
	return string(append(b, '}'))
}

// appendElement writes an element of an array of a type as text.
func appendElement(b []byte, oid uint32, v []byte) []byte {
	switch oid {
	case arrayOID["bigint"]:
		return strconv.AppendInt(b, int64(binary.BigEndian.Uint64(v)), 10)
	case arrayOID["bool"]:
		return strconv.AppendBool(b, v[0] != 0)
	case arrayOID["uuid"]:
		return hex.AppendEncode(b, v)
	case arrayOID["bytea"]:
		return append(hex.AppendEncode(append(b, `"\\x`...), v), '"')
	}
	b = append(b, '"')
	for _, c := range v {
		if c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return append(b, '"')
}

// nums returns one bigint[] parameter.
func nums[N ~int64](vs []N) []byte {
	a := array{oid: arrayOID["bigint"], n: len(vs), buf: make([]byte, arrayHeader, arrayHeader+len(vs)*width(column{typ: "bigint"}))}
	for _, v := range vs {
		a.num(int64(v))
	}
	return a.finish()
}

// bigints returns keys as the driver encodes them without reflection.
func bigints[N ~int64](keys []N) []int64 {
	list := make([]int64, len(keys))
	for i, k := range keys {
		list[i] = int64(k)
	}
	return list
}

// texts returns one text[] parameter.
func texts[S ~string](vs []S) []byte { return textsOf(vs).finish() }

func textsOf[S ~string](vs []S) *array {
	a := &array{oid: arrayOID["text"], n: len(vs), buf: make([]byte, arrayHeader, arrayHeader+len(vs)*width(column{typ: "text"}))}
	for _, v := range vs {
		a.text(string(v))
	}
	return a
}

// truth returns one bool parameter.
func truth(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// num returns one bigint parameter.
func num(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// PostgreSQL's text cannot hold NUL or invalid UTF-8. A string with either is stored quoted
// after this byte, which valid JSON and sensible names do not begin with, so that every string
// is read back unchanged.
const quoted = "\x01"

func storable(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) && !strings.HasPrefix(s, quoted) {
		return s
	}
	return quoted + strconv.QuoteToASCII(s)
}

// plain reports whether a text is storable unchanged.
func plain(b []byte) bool {
	return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) && !bytes.HasPrefix(b, []byte(quoted))
}

func isQuoted(b []byte) bool { return len(b) > 0 && b[0] == quoted[0] }

func original(b []byte) (string, error) {
	if !isQuoted(b) {
		return string(b), nil
	}
	s, err := strconv.Unquote(string(b[1:]))
	if err != nil {
		return "", fmt.Errorf("text %q: %w", b, err)
	}
	return s, nil
}
