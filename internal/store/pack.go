package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/machine"
)

// packedBytes is the length at which a list takes no more entries, and at which an entry is
// too long for a list: SQLite stores a row longer than a quarter of a page on its own page.
const packedBytes = 700

// A Packed is a row of the trail of jobs and steps. It holds the entries that one commit added
// for one job: the first in columns, the others in More, a JSON list or nil. Packing saves
// space because most of the cost of an entry is the cost of its row. No entry in the list
// sorts before the row's own entry, so entries of a job itself are in rows of the job.
type Packed struct {
	*Entry
	More []byte
}

// Pack puts entries of jobs and steps into rows. It sorts the entries; those of one entity
// stay in the order of their sequence.
func Pack(entries []*Entry) []Packed {
	slices.SortFunc(entries, func(a, b *Entry) int {
		if a.StepKey != b.StepKey {
			return a.Compare(b.StepKey)
		}
		return cmp.Compare(a.Sequence, b.Sequence)
	})
	jobs, length := 0, 0
	for i, e := range entries {
		if i == 0 || e.Job != entries[i-1].Job {
			jobs++
		} else {
			length += packedLength(e)
		}
	}
	rows := make([]Packed, 0, jobs)
	room := make([]byte, 0, length) // each row takes its part of this buffer
	for i, e := range entries {
		if i > 0 {
			if last := &rows[len(rows)-1]; last.Job == e.Job && len(last.More) < packedBytes && packable(e) {
				start := len(room) - len(last.More)
				room = appendPacked(room, e, last.More != nil)
				last.More = room[start:len(room):len(room)]
				continue
			}
		}
		rows = append(rows, Packed{Entry: e})
	}
	return rows
}

// packedLength returns the approximate length of an entry in a list.
func packedLength(e *Entry) int {
	const fixed, seal = 136, (2 + sha256.Size + audit.SaltSize) * 4 / 3
	n := fixed + len(e.To) + len(e.Event) + len(e.Reason) + len(e.Actor) + len(e.RequestID) + len(e.Metadata)*5/4 + len(e.Seals)*seal
	if e.Tree != nil {
		n += seal
	}
	return n
}

// appendPacked appends an entry to a list and moves the end of the list.
func appendPacked(b []byte, e *Entry, further bool) []byte {
	if further {
		b[len(b)-1] = ','
	} else {
		b = append(b, '[')
	}
	b = strconv.AppendInt(append(b, '['), int64(e.Ord), 10)
	b = strconv.AppendInt(append(b, ','), e.Sequence, 10)
	for _, s := range [...]string{string(e.To), string(e.Event), e.Reason, e.Actor, e.RequestID} {
		b = appendText(append(b, ','), s)
	}
	if b = append(b, ','); len(e.Metadata) == 0 {
		b = append(b, "null"...)
	} else {
		b = appendText(b, e.Metadata)
	}
	b = strconv.AppendInt(append(b, ','), e.At, 10)
	b = append(hex.AppendEncode(append(b, `,"`...), e.Hash[:]), '"')
	var room [256]byte
	switch extra := e.AppendExtra(room[:0]); len(extra) {
	case 0:
	case 1: // the version
		b = append(b, ',', '0'+extra[0])
	default:
		b = append(base64.RawStdEncoding.AppendEncode(append(b, `,"`...), extra), '"')
	}
	return append(b, "]]"...)
}

// packable reports whether a list may hold the entry. Long entries and control characters are
// excluded: a store may have its own way to keep these in columns.
func packable(e *Entry) bool {
	beside := 0
	for i := range e.Seals {
		beside += len(e.Seals[i].Payload) // the rest of a seal is short
	}
	return len(e.Reason)+len(e.Actor)+len(e.RequestID)+len(e.Metadata)+beside <= packedBytes &&
		plain(e.Reason) && plain(e.Actor) && plain(e.RequestID) && plain(e.Metadata) && utf8.Valid(e.Metadata)
}

// plain reports whether a text has no control characters.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' {
			return false
		}
	}
	return true
}

// appendText writes a plain text, which is valid UTF-8, as a JSON string.
func appendText[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(append(b, s[from:i]...), '\\')
			from = i
		}
	}
	return append(append(b, s[from:]...), '"')
}

// Listed returns how a list of entries has a text. A list without it has no entry with the text.
func Listed(s string) string { return string(appendText(nil, s)) }

// Chain sorts the entries of one entity and sets the From of each.
func Chain(id string, entries []audit.Entry) {
	slices.SortStableFunc(entries, func(a, b audit.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	from := machine.State("")
	for i := range entries {
		entries[i].Entity, entries[i].From, from = id, from, entries[i].To
	}
}
