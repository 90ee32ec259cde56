package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// SaltSize is how many random bytes precede the sealed payload.
const SaltSize = 16

// A Salt is the random bytes of a seal. Without them, not even a sealed yes or no can be
// guessed.
type Salt [SaltSize]byte

// A Seal binds payload to an entry without containing it: the SHA-256 of the salt and of the
// bytes as they are stored. Field and Sum are hashed with the entry. The salt and the payload
// are kept beside the entry and can be withheld, which leaves the chain intact.
type Seal struct {
	Field   string // one of Fields
	Sum     Hash
	Salt    *Salt  // nil: withheld
	Payload []byte // nil: it is in the record, or was withheld
}

// The sealed fields: those of records; why an attempt failed, which is kept beside the entry;
// and the data of a signal.
const (
	FieldInputs   = "inputs"
	FieldMetadata = "metadata"
	FieldInput    = "input"
	FieldOutput   = "output"
	FieldError    = "error"
	FieldFailure  = "failure"
	FieldData     = "data"
)

// Fields are the sealed fields. Stores refer to a field by its index in this list.
var Fields = []string{FieldInputs, FieldMetadata, FieldInput, FieldOutput, FieldError, FieldFailure, FieldData}

// maxField bounds the length of a field's name.
const maxField = 8

// Empty reports whether a field of a record needs no seal: it is missing, or an object
// without members.
func Empty(payload []byte) bool { return payload == nil || string(payload) == "{}" }

// Sum returns the sum of a seal.
func Sum(salt *Salt, payload []byte) Hash {
	if len(payload) <= 512 {
		var scratch [SaltSize + 512]byte
		return sha256.Sum256(append(append(scratch[:0], salt[:]...), payload...))
	}
	h := sha256.New()
	h.Write(salt[:])
	h.Write(payload)
	return Hash(h.Sum(nil))
}

// Sealed returns the seal of a field, without the payload.
func Sealed(field string, salt Salt, payload []byte) Seal {
	return Seal{Field: field, Sum: Sum(&salt, payload), Salt: &salt}
}

// Opens reports whether payload is what was sealed. It returns false for a withheld seal.
func (s *Seal) Opens(payload []byte) bool {
	return s.Salt != nil && s.Sum == Sum(s.Salt, payload)
}

// SealOf returns the entry's seal of a field, or nil.
func (e *Entry) SealOf(field string) *Seal {
	for i := range e.Seals {
		if e.Seals[i].Field == field {
			return &e.Seals[i]
		}
	}
	return nil
}

// Payload returns the payload of a field that is kept beside the entry, or nil.
func (e *Entry) Payload(field string) []byte {
	if s := e.SealOf(field); s != nil {
		return s.Payload
	}
	return nil
}

// Withheld reports whether payload of the entry was withheld.
func (e *Entry) Withheld() bool {
	return slices.ContainsFunc(e.Seals, func(s Seal) bool { return s.Salt == nil })
}

// The meaning of the bytes of AppendExtra.
const (
	extraTree  = 1 << 0
	extraAgain = 1 << 1
	extraSeals = 1 << 2

	sealWithheld = 0
	sealSalt     = 1
	sealPayload  = 2
)

// AppendExtra appends what an entry has besides the columns of version 1, in the form of
// stores: nothing for version 1. For version 2 it appends the version as a byte and, if there
// is more, flags, followed by the parts that the flags announce: N and Acc of the tree, Again,
// the seals. Numbers are unsigned varints. A seal is the index of its field in Fields, a byte
// that says what is kept beside it, its sum, then the salt, then the length of the payload and
// the payload.
func (e *Entry) AppendExtra(b []byte) []byte {
	if e.Version != Version2 {
		return b
	}
	b = append(b, Version2)
	flags := byte(0)
	if e.Tree != nil {
		flags |= extraTree
	}
	if e.Again != 0 {
		flags |= extraAgain
	}
	if len(e.Seals) > 0 {
		flags |= extraSeals
	}
	if flags == 0 {
		return b
	}
	b = append(b, flags)
	if e.Tree != nil {
		b = append(binary.AppendUvarint(b, uint64(e.Tree.N)), e.Tree.Acc[:]...)
	}
	if e.Again != 0 {
		b = binary.AppendUvarint(b, uint64(e.Again))
	}
	for i := range e.Seals {
		b = e.Seals[i].append(b)
	}
	return b
}

func (s *Seal) append(b []byte) []byte {
	kept := byte(sealWithheld)
	switch {
	case s.Salt != nil && s.Payload != nil:
		kept = sealPayload
	case s.Salt != nil:
		kept = sealSalt
	}
	b = append(b, byte(slices.Index(Fields, s.Field)), kept)
	b = append(b, s.Sum[:]...)
	if kept != sealWithheld {
		b = append(b, s.Salt[:]...)
	}
	if kept == sealPayload {
		b = append(binary.AppendUvarint(b, uint64(len(s.Payload))), s.Payload...)
	}
	return b
}

// ReadExtra reads into the entry what AppendExtra wrote. It does not keep b.
func (e *Entry) ReadExtra(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if b[0] != Version2 {
		return fmt.Errorf("version %d of an entry: want %d", b[0], Version2)
	}
	e.Version = Version2
	if len(b) == 1 {
		return nil
	}
	r := extraReader{rest: b[2:]}
	if b[1]&extraTree != 0 {
		e.Tree = &Tree{N: r.number()}
		r.into(e.Tree.Acc[:])
	}
	if b[1]&extraAgain != 0 {
		e.Again = r.number()
	}
	for b[1]&extraSeals != 0 && len(r.rest) > 0 && r.err == nil {
		e.Seals = append(e.Seals, r.seal())
	}
	if len(r.rest) > 0 {
		r.fail()
	}
	return r.err
}

// An extraReader reads parts from its rest until one is missing.
type extraReader struct {
	rest []byte
	err  error
}

func (r *extraReader) fail() {
	if r.err == nil {
		r.err = errors.New("the seals of an entry are damaged")
	}
	r.rest = nil
}

func (r *extraReader) number() int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > 1<<62 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

func (r *extraReader) into(b []byte) {
	if len(r.rest) < len(b) {
		r.fail()
		return
	}
	copy(b, r.rest)
	r.rest = r.rest[len(b):]
}

func (r *extraReader) seal() (s Seal) {
	var head [2]byte
	r.into(head[:])
	r.into(s.Sum[:])
	if int(head[0]) >= len(Fields) || head[1] > sealPayload {
		r.fail()
		return s
	}
	s.Field = Fields[head[0]]
	if head[1] == sealWithheld {
		return s
	}
	s.Salt = new(Salt)
	r.into(s.Salt[:])
	if head[1] == sealPayload {
		n := r.number()
		if n > int64(len(r.rest)) {
			r.fail()
			return s
		}
		s.Payload = bytes.Clone(r.rest[:n:n])
		if s.Payload == nil {
			s.Payload = []byte{}
		}
		r.rest = r.rest[n:]
	}
	return s
}
