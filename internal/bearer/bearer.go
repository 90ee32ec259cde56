// Package bearer is the form of the secret of a token, as a program sends it in the header
// Authorization.
//
// A secret is "pawl_", the 32 hexadecimal digits of the token's id, 43 digits of base 62 for
// 32 random bytes, and 8 hexadecimal digits of CRC-32 over all before them, with "_" between
// the parts. So tools that search files for secrets find it, a double click selects all of
// it, and what was mistyped is refused without a look into the database.
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Size is the number of random bytes in a secret.
const Size = 32

// Prefix is that of every secret.
const Prefix = "pawl_"

const (
	idDigits     = 32
	randomDigits = 43
	sumDigits    = 8
	length       = len(Prefix) + idDigits + 1 + randomDigits + 1 + sumDigits
)

// Make returns the secret of the token with an id, from random bytes.
func Make(id pawl.ID, random [Size]byte) string {
	digits := new(big.Int).SetBytes(random[:]).Text(62)
	body := id.Public(Prefix) + "_" + strings.Repeat("0", randomDigits-len(digits)) + digits
	return body + "_" + checksum(body)
}

// Parse returns the id of the token that a text is the secret of. It reports whether the text
// has the form of a secret; whether the token exists, only the database knows.
func Parse(text string) (pawl.ID, bool) {
	if len(text) != length {
		return pawl.ID{}, false
	}
	at := len(text) - sumDigits - 1
	if text[at] != '_' || text[len(Prefix)+idDigits] != '_' || text[at+1:] != checksum(text[:at]) {
		return pawl.ID{}, false
	}
	id, err := pawl.ParseID(Prefix, text[:len(Prefix)+idDigits])
	return id, err == nil
}

func checksum(body string) string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body)))
}

// Sum returns what is stored of a secret.
func Sum(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// Is reports, in constant time, whether a secret has that sum.
func Is(secret string, sum [sha256.Size]byte) bool {
	got := Sum(secret)
	return subtle.ConstantTimeCompare(got[:], sum[:]) == 1
}
