package audit

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// An Anchor records what retention removed of one kind of entity and one day of creation (K6):
// how many entities, their times, and a digest over the ends of their trails. The anchors of a
// kind form their own chain: each carries the SHA-256 of its content and of the anchor before
// it.
//
// Digest can be recomputed from an export that was written before the removal. It begins as 32
// zero bytes, and each trail, in the order of the export (a job before its steps), replaces it
// by the SHA-256 of itself and of the hash of that trail's last row. The trails are those of
// the entities of Kind, with the steps of jobs, that an export after the removal no longer
// has. A job whose first row is of version 2 seals its steps by its last row: only its own
// trail is folded, so that a checkpoint is enough. Sealed is the number of such jobs; in older
// anchors it is -1, and all trails of all jobs are folded.
type Anchor struct {
	Kind         string // name of the machine: job (with its steps), worker, schedule, token, queue_pause, webhook
	Sequence     int64  // 1 for the first of the kind, then without a gap
	Day          int64  // beginning of the UTC day of their creation; times are in microseconds
	Count        int64  // entities removed; steps go with their job and are not counted
	Entries      int64  // rows of their trails
	FirstCreated int64
	LastCreated  int64
	FirstEnded   int64
	LastEnded    int64
	Last         int64 // key of the last one; keys increase within an anchor
	Digest       Hash
	At           int64 // of the last removal
	Actor        string
	Reason       string
	Hash         Hash
	Sealed       int64 // jobs of which the digest covers only their own trail; -1: the anchor is older than this field
}

// Add counts an entity: its key, when it was created and ended, and the ends of its trails in
// their order. sealed means that the first trail seals the others.
func (a *Anchor) Add(key, created, ended int64, sealed bool, trails ...Stored) {
	if a.Count == 0 {
		a.FirstCreated, a.LastCreated, a.FirstEnded, a.LastEnded = created, created, ended, ended
	}
	a.FirstCreated, a.LastCreated = min(a.FirstCreated, created), max(a.LastCreated, created)
	a.FirstEnded, a.LastEnded = min(a.FirstEnded, ended), max(a.LastEnded, ended)
	a.Count++
	a.Last = key
	alone := sealed && a.Sealed >= 0
	if alone {
		a.Sealed++
	}
	for i, t := range trails {
		a.Entries += t.Seq
		if i == 0 || !alone {
			a.Digest = Fold(a.Digest, t.Head)
		}
	}
}

// Fold returns the digest extended by another trail, which ends with the hash head.
func Fold(digest, head Hash) Hash {
	return sha256.Sum256(append(digest[:], head[:]...))
}

// Seal sets the anchor's hash, over prev, the hash of the anchor before it (zero for the
// first), and its canonical form: each field in the order of Anchor, in the form of an entry's
// fields, hashes as raw bytes. Sealed comes last, and is omitted if it is -1.
func (a *Anchor) Seal(prev Hash) {
	a.Actor, a.Reason = repaired(a.Actor), repaired(a.Reason)
	a.Hash = a.digest(prev)
}

func (a *Anchor) digest(prev Hash) Hash {
	b := field(prev[:], a.Kind)
	for _, n := range []int64{a.Sequence, a.Day, a.Count, a.Entries, a.FirstCreated, a.LastCreated, a.FirstEnded, a.LastEnded, a.Last} {
		b = number(b, n)
	}
	b = field(b, string(a.Digest[:]))
	b = number(b, a.At)
	b = field(field(b, a.Actor), a.Reason)
	if a.Sealed >= 0 {
		b = number(b, a.Sealed)
	}
	return sha256.Sum256(b)
}

// VerifyAnchors checks anchors, by kind and sequence, and returns the first fault or nil: that
// none is missing before another, and that each is as it was sealed. It cannot detect that the
// last ones of a kind were removed; for that, keep the last hash elsewhere.
func VerifyAnchors(anchors []Anchor) *Fault {
	var last Anchor
	for i := range anchors {
		a := &anchors[i]
		if a.Kind != last.Kind {
			last = Anchor{Kind: a.Kind}
		}
		f := &Fault{Entity: "anchor of " + a.Kind, Sequence: last.Sequence + 1}
		switch {
		case a.Sequence > last.Sequence+1:
			f.Code, f.Message = FaultGap, fmt.Sprintf("it is missing: the next one that is there is %d", a.Sequence)
			return f
		case a.Sequence <= last.Sequence:
			f.Code, f.Message = FaultOrder, fmt.Sprintf("anchor %d is in its place", a.Sequence)
			return f
		case a.digest(last.Hash) != a.Hash:
			f.Code, f.Message = FaultHash, "it is not what was sealed, or does not follow the anchor before it"
			return f
		}
		last = *a
	}
	return nil
}

// Anchored reports whether retention has removed entities of the kind that were
// created on the day of at.
func Anchored(anchors []Anchor, kind string, at int64) bool {
	const day = 24 * 60 * 60 * 1_000_000
	return slices.ContainsFunc(anchors, func(a Anchor) bool { return a.Kind == kind && a.Day <= at && at < a.Day+day })
}
