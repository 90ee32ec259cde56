package controller

import (
	"crypto/rand"
	"strings"
	"time"
)

const idDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// IsID reports whether a text is the id of a run: a ULID.
func IsID(s string) bool {
	return len(s) == 26 && s[0] <= '7' && strings.Trim(s, idDigits) == ""
}

// NewID returns a new ULID: the time in milliseconds, and 80 random bits.
func NewID(now time.Time) string {
	id := make([]byte, 26)
	_, _ = rand.Read(id[10:]) // never fails
	for i := range id[10:] {
		id[10+i] = idDigits[id[10+i]%32]
	}
	for i, ms := 9, now.UnixMilli(); i >= 0; i, ms = i-1, ms/32 {
		id[i] = idDigits[ms%32]
	}
	return string(id)
}
