package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/machine"
)

// Hash is the SHA-256 of an entry and of the entry before it.
type Hash [sha256.Size]byte

// MarshalText returns the hash as 64 lower-case hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 lower-case hexadecimal digits. On error the hash stays unchanged.
func (h *Hash) UnmarshalText(b []byte) error {
	var v Hash
	if len(b) == hex.EncodedLen(len(v)) {
		if _, err := hex.Decode(v[:], b); err == nil && hex.EncodeToString(v[:]) == string(b) {
			*h = v
			return nil
		}
	}
	return fmt.Errorf("hash %.70q: want 64 lower-case hexadecimal digits", b)
}

// An Entry is one row of the audit trail (K5): one transition of one entity. The package
// documentation says what its fields may hold.
type Entry struct {
	Entity    string        // public id: j_..., st_..., w_...
	Sequence  int64         // 1 for the creation, then without a gap
	From      machine.State // empty for the creation
	To        machine.State
	Event     machine.Event
	Reason    string
	Actor     string
	RequestID string
	Metadata  []byte // a compact JSON object, or empty
	At        int64  // microseconds since the Unix epoch, UTC
	Hash      Hash

	// Version is the version of the canonical form: 2, or 0 for the first one. The following
	// fields belong to version 2.
	Version int
	Seals   []Seal // of payload, by field, at most one for each field
	Tree    *Tree  // what was counted out; in the row that ends a job or the node of a fan-out
	Again   int64  // the number by which the trail was counted out before this row made it longer, or 0

	// Folded is the number by which the trail, with this row as its last one, was
	// counted out, or 0. It is not hashed: the tree proves it.
	Folded int64
}

// Version2 is the newest version of the canonical form.
const Version2 = 2

// Seal sets the entry's hash to the digest of prev, the hash of the entry before it (zero for
// the first), and of the entry's canonical form (K6). Before that it replaces NUL and invalid
// UTF-8 in Reason, Actor and RequestID by U+FFFD. It does not change Metadata.
//
// Seal does not allocate, unless there is something to replace or the canonical form is longer
// than 4 KiB.
func (e *Entry) Seal(prev Hash) {
	if !storable(e.Reason) {
		e.Reason = repaired(e.Reason)
	}
	if !storable(e.Actor) {
		e.Actor = repaired(e.Actor)
	}
	if !storable(e.RequestID) {
		e.RequestID = repaired(e.RequestID)
	}
	e.Hash = e.digest(prev)
}

// storable reports whether every database and JSON can represent s unchanged.
func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func repaired(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// overhead bounds the size of a hash, the ten lengths and the two numbers.
const overhead = sha256.Size + 10*21 + 2*20

// size bounds the length of the hash before the entry and its canonical form.
func (e *Entry) size() int {
	extra := 0
	if e.Version == Version2 {
		extra = 3 + 2*23 + 3 + sha256.Size + 23 + len(e.Seals)*(2*3+maxField+sha256.Size)
	}
	return extra + overhead + len(e.Entity) + len(e.From) + len(e.To) + len(e.Event) +
		len(e.Reason) + len(e.Actor) + len(e.RequestID) + len(e.Metadata)
}

// digest hashes a buffer on the stack, the smallest that is large enough: a larger one takes
// longer to clear on every call.
func (e *Entry) digest(prev Hash) Hash {
	switch n := e.size(); {
	case n <= 768:
		return e.digestSmall(prev)
	case n <= 4096+overhead:
		return e.digestLarge(prev)
	default:
		return e.digestIn(make([]byte, 0, n), prev)
	}
}

func (e *Entry) digestSmall(prev Hash) Hash {
	var scratch [768]byte
	return e.digestIn(scratch[:0], prev)
}

func (e *Entry) digestLarge(prev Hash) Hash {
	var scratch [4096 + overhead]byte
	return e.digestIn(scratch[:0], prev)
}

func (e *Entry) digestIn(b []byte, prev Hash) Hash {
	return sha256.Sum256(e.AppendCanonical(append(b, prev[:]...)))
}

// AppendCanonical appends the canonical form of the entry to b: each field in the order of
// Entry, except the hash, as decimal length, colon, bytes (numbers in decimal). No two
// different entries have the same form. The package documentation defines it in full.
func (e *Entry) AppendCanonical(b []byte) []byte {
	if e.Version != Version2 {
		return e.appendVersion1(b)
	}
	b = e.appendVersion1(number(b, Version2))
	if e.Tree == nil {
		b = append(b, "0:0:"...)
	} else {
		b = append(length(number(b, e.Tree.N), sha256.Size), e.Tree.Acc[:]...)
	}
	b = number(b, e.Again)
	b = number(b, int64(len(e.Seals)))
	for i := range e.Seals {
		b = field(b, e.Seals[i].Field)
		b = append(length(b, sha256.Size), e.Seals[i].Sum[:]...)
	}
	return b
}

func (e *Entry) appendVersion1(b []byte) []byte {
	b = field(b, e.Entity)
	b = number(b, e.Sequence)
	b = field(b, string(e.From))
	b = field(b, string(e.To))
	b = field(b, string(e.Event))
	b = field(b, e.Reason)
	b = field(b, e.Actor)
	b = field(b, e.RequestID)
	b = append(length(b, len(e.Metadata)), e.Metadata...)
	return number(b, e.At)
}

func field(b []byte, s string) []byte { return append(length(b, len(s)), s...) }

func number(b []byte, n int64) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], n, 10)
	return append(length(b, len(d)), d...)
}

// length appends a length and a colon. Nearly all lengths have one or two digits, for which
// strconv takes several times as long.
func length(b []byte, n int) []byte {
	switch {
	case n < 10:
		return append(b, '0'+byte(n), ':')
	case n < 100:
		return append(b, '0'+byte(n/10), '0'+byte(n%10), ':')
	}
	return append(strconv.AppendInt(b, int64(n), 10), ':')
}
