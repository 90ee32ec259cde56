// Package keyring encrypts secrets that the database keeps, with keys that it does not have.
//
// A [Ring] has the keys of one file, which the operator makes. The first one encrypts, all of them
// decrypt: so a key is replaced without a moment at which something cannot be read. A secret is
// encrypted with AES-256-GCM for one owner, whose id is authenticated with it: what was moved to
// another row, or changed, is refused. A file whose first line is "plain" turns that round: what its
// keys decrypt is stored as it is again.
//
// What is stored says how. 32 bytes are a secret as it is. Else the first byte is the version of the
// form, and for version 1 the next 8 are the fingerprint of the key, 12 the nonce, and the rest the
// ciphertext with its tag: 69 bytes. A program that knows only the first form refuses the second.
package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pawl-dev/pawl"
)

// SecretSize is the length of a secret, and KeySize that of a key, in bytes.
const (
	SecretSize = 32
	KeySize    = 32
)

const (
	version    = 1
	printBytes = 8
	header     = 1 + printBytes

	maxKeys = 16
	maxFile = 16 << 10
)

// purpose keeps what is encrypted here from being taken for something else by the same key.
const purpose = "pawl secret 1\x00"

// A Ring has the keys of a process. The zero value and nil have none: secrets are stored as they are.
type Ring struct {
	plain bool // its keys only decrypt
	keys  []key
}

// plain is the first line of a file whose keys only decrypt.
const plain = "plain"

type key struct {
	print [printBytes]byte
	aead  cipher.AEAD
}

// Read reads the keys of a file, one a line, the one that encrypts first: 32 bytes in base64 or in
// hexadecimal. With the line "plain" in front none encrypts. Empty lines and those that begin with #
// are ignored. A file that other users can read, or that its group can write, is refused. No error has
// a part of a key.
func Read(path string) (*Ring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "cannot read the keys of secrets: %v", err)
	}
	defer f.Close()
	if err := private(f, path); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, pawl.Errorf(pawl.Invalid, "cannot read the keys of secrets: %v", err)
	case len(text) > maxFile:
		return nil, pawl.Errorf(pawl.Invalid, "%s: it has more than %d bytes: want at most %d keys", path, maxFile, maxKeys)
	}
	r, err := Parse(string(text))
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: path + ": " + err.Error(), Hint: "make a key with: openssl rand -base64 32"}
	}
	return r, nil
}

// private refuses a file that is not for its user alone. Its group may read it: programs that pass
// secrets on, as Kubernetes and systemd, give files to a service by its group.
func private(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return pawl.Errorf(pawl.Invalid, "cannot read the keys of secrets: %v", err)
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return &pawl.Error{Kind: pawl.Refused, Message: fmt.Sprintf("%s has the mode %04o, but has keys of secrets: want 0600, or 0640 for its group", path, mode),
			Hint: "make it yours alone with: chmod 600 " + path}
	}
	return nil
}

// Parse returns the keys of the text of a file.
func Parse(text string) (*Ring, error) {
	r, n := &Ring{}, 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if line == plain && !r.Given() {
			r.plain = true
			continue
		}
		k, err := parseKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case r.find(k.print) != nil:
			return nil, fmt.Errorf("line %d: key %x is there already", n, k.print)
		case len(r.keys) == maxKeys:
			return nil, fmt.Errorf("line %d: want at most %d keys", n, maxKeys)
		}
		r.keys = append(r.keys, k)
	}
	if !r.Given() {
		return nil, errors.New("it has no key")
	}
	return r, nil
}

func parseKey(text string) (k key, err error) {
	var b []byte
	if len(text) == 2*KeySize {
		b, err = hex.DecodeString(text)
	} else {
		b, err = base64.StdEncoding.Strict().DecodeString(text)
	}
	if err != nil || len(b) != KeySize { // the error would have a part of the key
		return k, fmt.Errorf("want %d bytes in base64 (44 characters) or in hexadecimal (64)", KeySize)
	}
	block, err := aes.NewCipher(b)
	if err != nil {
		return k, err
	}
	sum := sha256.Sum256(append([]byte("pawl fingerprint of a key\x00"), b...))
	copy(k.print[:], sum[:])
	k.aead, err = cipher.NewGCMWithRandomNonce(block)
	return k, err
}

func (r *Ring) find(print [printBytes]byte) *key {
	if r == nil {
		return nil
	}
	for i := range r.keys {
		if r.keys[i].print == print {
			return &r.keys[i]
		}
	}
	return nil
}

// Given reports whether an operator has said how secrets are stored, as the file of keys does.
func (r *Ring) Given() bool { return r != nil && (r.plain || len(r.keys) > 0) }

// First returns the fingerprint of the key that encrypts, empty if secrets are stored as they are.
func (r *Ring) First() string {
	if !r.Given() || r.plain {
		return ""
	}
	return r.Fingerprints()[0]
}

// Fingerprints returns those of all keys, in their order.
func (r *Ring) Fingerprints() (all []string) {
	if r == nil {
		return nil
	}
	for i := range r.keys {
		all = append(all, hex.EncodeToString(r.keys[i].print[:]))
	}
	return all
}

// Encrypt returns a secret as it is stored for an owner: encrypted with the first key, if one encrypts.
func (r *Ring) Encrypt(owner [16]byte, secret [SecretSize]byte) []byte {
	if r.First() == "" {
		return secret[:]
	}
	k := &r.keys[0]
	stored := append([]byte{version}, k.print[:]...)
	return k.aead.Seal(stored, nil, secret[:], bound(owner, stored))
}

// bound returns what is authenticated beside a secret.
func bound(owner [16]byte, header []byte) []byte {
	return append(append([]byte(purpose), owner[:]...), header...)
}

// Decrypt returns a secret that is stored for an owner. The error names the fingerprint of the key
// that is missing, or with which the secret cannot be decrypted, and has nothing of the secret.
func (r *Ring) Decrypt(owner [16]byte, stored []byte) (secret [SecretSize]byte, err error) {
	switch {
	case IsNone(stored):
		return secret, pawl.Errorf(pawl.Conflict, "there is no secret")
	case len(stored) == SecretSize:
		return [SecretSize]byte(stored), nil
	}
	print := KeyOf(stored)
	if print == "" || print == unknown {
		return secret, pawl.Errorf(pawl.Conflict, "the secret is stored in a form that this program does not know")
	}
	k := r.find([printBytes]byte(stored[1:header]))
	if k == nil {
		return secret, r.missing(print)
	}
	b, err := k.aead.Open(nil, nil, stored[header:], bound(owner, stored[:header]))
	if err != nil || len(b) != SecretSize {
		return secret, &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the secret cannot be decrypted with key %s: it was changed in the database, or is that of another record", print),
			Hint: "make another secret with: pawl webhook rotate"}
	}
	return [SecretSize]byte(b), nil
}

func (r *Ring) missing(print string) error {
	has := "this process has no key"
	if all := r.Fingerprints(); len(all) > 0 {
		has = "this process has " + strings.Join(all, ", ")
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the secret is encrypted with key %s; %s", print, has),
		Hint: "name the file with that key with --secret-key-file or PAWL_SECRET_KEY_FILE"}
}

// unknown is the KeyOf of what no key is known of.
const unknown = "unknown"

// KeyOf returns the fingerprint of the key with which a stored secret is encrypted: empty if it is
// stored as it is, and "unknown" if it has another form.
func KeyOf(stored []byte) string {
	switch {
	case len(stored) == SecretSize:
		return ""
	case len(stored) > header && stored[0] == version:
		return hex.EncodeToString(stored[1:header])
	}
	return unknown
}

// None is stored where there is no secret.
func None() []byte { return make([]byte, SecretSize) }

// IsNone reports whether no secret is stored.
func IsNone(stored []byte) bool { return len(stored) == 0 || bytes.Equal(stored, None()) }
