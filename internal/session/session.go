// Package session has the names of sessions. A session is what a browser shows to a server to be
// let in: a token that its server made when somebody signed in, whose name says who that is.
//
// The name is "session.", 12 hexadecimal digits that tell the sessions of one person apart, "."
// and the subject. The subject is the id of a token, or "oidc:" and what an identity provider
// calls the person. Of it, what is no letter, digit or "-" is written as "_" and two hexadecimal
// digits.
package session

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
)

const (
	prefix = "session."
	digits = 12

	maxName = 128 // bytes of the name of a token

	// OIDC begins the subject, and the actor, of a person whom an identity provider knows.
	OIDC = "oidc:"
)

// Reserved reports whether a name is one of sessions, which no other token may have.
func Reserved(name string) bool { return strings.HasPrefix(name, prefix) }

// Name returns the name of a session of a subject, from random bytes. The error is of kind
// Invalid if the subject is too long.
func Name(subject string, random [digits / 2]byte) (string, error) {
	var b strings.Builder
	b.WriteString(prefix + hex.EncodeToString(random[:]) + ".")
	for i := range len(subject) {
		if c := subject[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() > maxName {
		return "", pawl.Errorf(pawl.Invalid, "subject %.200q: want one that takes at most %d bytes in the name of a session, in which each character but letters, digits and - takes 3",
			subject, maxName-len(prefix)-digits-1)
	}
	return b.String(), nil
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

// Subject returns the subject of a session. It reports whether the name is one of a session.
func Subject(name string) (subject string, is bool) {
	rest, is := strings.CutPrefix(name, prefix)
	if !is || len(rest) <= digits || rest[digits] != '.' || strings.Trim(rest[:digits], "0123456789abcdef") != "" {
		return "", false
	}
	subject, is = unescaped(rest[digits+1:])
	_, err := pawl.ParseID(pawl.TokenPrefix, subject)
	return subject, is && (err == nil || strings.HasPrefix(subject, OIDC) && len(subject) > len(OIDC))
}

func unescaped(rest string) (text string, is bool) {
	var b strings.Builder
	for rest != "" {
		if rest[0] != '_' {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		if len(rest) < 3 {
			return "", false
		}
		c, err := hex.DecodeString(rest[1:3])
		if err != nil {
			return "", false
		}
		b.WriteByte(c[0])
		rest = rest[3:]
	}
	return b.String(), true
}
