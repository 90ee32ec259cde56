package audit_test

import (
	"crypto/sha256"
	"testing"

	"github.com/pawl-dev/pawl/audit"
)

func chainOf(kinds ...string) []audit.Anchor {
	var list []audit.Anchor
	last := map[string]audit.Anchor{}
	for i, kind := range kinds {
		a := audit.Anchor{Kind: kind, Sequence: last[kind].Sequence + 1, Day: int64(i) * 86400e6, At: 9, Actor: "someone", Reason: "because"}
		a.Add(1, 5, 7, false, audit.Stored{Seq: 3, Head: audit.Hash{1}}, audit.Stored{Seq: 2, Head: audit.Hash{2}})
		a.Add(4, 3, 8, false, audit.Stored{Seq: 4, Head: audit.Hash{3}})
		a.Seal(last[kind].Hash)
		list, last[kind] = append(list, a), a
	}
	return list
}

// TestAnchors: they count, and any change to one is found (K6).
func TestAnchors(t *testing.T) {
	t.Parallel()
	a := chainOf("job")[0]
	digest := audit.Hash{}
	for _, head := range []audit.Hash{{1}, {2}, {3}} {
		digest = sha256.Sum256(append(digest[:], head[:]...))
	}
	want := audit.Anchor{Kind: "job", Sequence: 1, Count: 2, Entries: 9, FirstCreated: 3, LastCreated: 5, FirstEnded: 7, LastEnded: 8, Last: 4,
		Digest: digest, At: 9, Actor: "someone", Reason: "because", Hash: a.Hash}
	if a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	if !audit.Anchored([]audit.Anchor{a}, "job", 86400e6-1) || audit.Anchored([]audit.Anchor{a}, "job", 86400e6) || audit.Anchored([]audit.Anchor{a}, "worker", 1) {
		t.Error("the day of the anchor is not its own")
	}
}

// K6: of a job that seals its steps the digest has its own trail alone. An anchor that is
// older than that has all trails, also of what is added to it later.
func TestAnchorsOfSealedJobs(t *testing.T) {
	t.Parallel()
	trails := []audit.Stored{{Seq: 3, Head: audit.Hash{1}}, {Seq: 2, Head: audit.Hash{2}}}
	fold := func(heads ...audit.Hash) (digest audit.Hash) {
		for _, h := range heads {
			digest = audit.Fold(digest, h)
		}
		return digest
	}
	for _, x := range []struct {
		name   string
		begun  int64
		sealed bool
		want   audit.Hash
		count  int64
	}{
		{"sealed", 0, true, fold(audit.Hash{1}), 1},
		{"older job", 0, false, fold(audit.Hash{1}, audit.Hash{2}), 0},
		{"older anchor", -1, true, fold(audit.Hash{1}, audit.Hash{2}), -1},
	} {
		a := audit.Anchor{Kind: "job", Sequence: 1, Sealed: x.begun}
		a.Add(1, 5, 7, x.sealed, trails...)
		if a.Digest != x.want || a.Sealed != x.count || a.Entries != 5 {
			t.Errorf("%s: %+v", x.name, a)
		}
		a.Seal(audit.Hash{})
		if f := audit.VerifyAnchors([]audit.Anchor{a}); f != nil {
			t.Errorf("%s: %v", x.name, f)
		}
	}
}

// K6: an anchor that was sealed before there was Sealed verifies as it was.
func TestAnchorsOfBefore(t *testing.T) {
	t.Parallel()
	a := audit.Anchor{Kind: "job", Sequence: 1, Count: 1, Entries: 2, At: 9, Actor: "someone", Reason: "because", Sealed: -1}
	form := make([]byte, 32)
	form = append(form, "3:job1:11:01:11:21:01:01:01:01:032:"...)
	form = append(append(form, make([]byte, 32)...), "1:97:someone7:because"...)
	a.Hash = sha256.Sum256(form)
	if f := audit.VerifyAnchors([]audit.Anchor{a}); f != nil {
		t.Error(f)
	}
	a.Sealed = 0
	if f := audit.VerifyAnchors([]audit.Anchor{a}); f == nil {
		t.Error("it passes as a newer one")
	}
}

func TestVerifyAnchors(t *testing.T) {
	t.Parallel()
	fresh := func() []audit.Anchor { return chainOf("job", "job", "job", "worker", "worker") }
	if f := audit.VerifyAnchors(fresh()); f != nil {
		t.Fatal(f)
	}
	if f := audit.VerifyAnchors(nil); f != nil {
		t.Fatal(f)
	}
	for name, tt := range map[string]struct {
		change func(list []audit.Anchor) []audit.Anchor
		want   audit.Code
		of     string
		at     int64
	}{
		"kind":          {func(l []audit.Anchor) []audit.Anchor { l[0].Kind = "jo"; return l }, audit.FaultHash, "jo", 1},
		"day":           {func(l []audit.Anchor) []audit.Anchor { l[1].Day++; return l }, audit.FaultHash, "job", 2},
		"count":         {func(l []audit.Anchor) []audit.Anchor { l[1].Count++; return l }, audit.FaultHash, "job", 2},
		"entries":       {func(l []audit.Anchor) []audit.Anchor { l[1].Entries++; return l }, audit.FaultHash, "job", 2},
		"first created": {func(l []audit.Anchor) []audit.Anchor { l[1].FirstCreated++; return l }, audit.FaultHash, "job", 2},
		"last created":  {func(l []audit.Anchor) []audit.Anchor { l[1].LastCreated++; return l }, audit.FaultHash, "job", 2},
		"first ended":   {func(l []audit.Anchor) []audit.Anchor { l[1].FirstEnded++; return l }, audit.FaultHash, "job", 2},
		"last ended":    {func(l []audit.Anchor) []audit.Anchor { l[1].LastEnded++; return l }, audit.FaultHash, "job", 2},
		"last":          {func(l []audit.Anchor) []audit.Anchor { l[1].Last++; return l }, audit.FaultHash, "job", 2},
		"digest":        {func(l []audit.Anchor) []audit.Anchor { l[1].Digest[0]++; return l }, audit.FaultHash, "job", 2},
		"at":            {func(l []audit.Anchor) []audit.Anchor { l[1].At++; return l }, audit.FaultHash, "job", 2},
		"sealed":        {func(l []audit.Anchor) []audit.Anchor { l[1].Sealed++; return l }, audit.FaultHash, "job", 2},
		"made older":    {func(l []audit.Anchor) []audit.Anchor { l[1].Sealed = -1; return l }, audit.FaultHash, "job", 2},
		"actor":         {func(l []audit.Anchor) []audit.Anchor { l[1].Actor = "x"; return l }, audit.FaultHash, "job", 2},
		"reason":        {func(l []audit.Anchor) []audit.Anchor { l[4].Reason = ""; return l }, audit.FaultHash, "worker", 2},
		"sealed anew":   {func(l []audit.Anchor) []audit.Anchor { l[1].Count++; l[1].Seal(l[0].Hash); return l }, audit.FaultHash, "job", 3},
		"first gone":    {func(l []audit.Anchor) []audit.Anchor { return l[1:] }, audit.FaultGap, "job", 1},
		"middle gone":   {func(l []audit.Anchor) []audit.Anchor { return append(l[:1], l[2:]...) }, audit.FaultGap, "job", 2},
		"twice":         {func(l []audit.Anchor) []audit.Anchor { l[1] = l[0]; return l }, audit.FaultOrder, "job", 2},
	} {
		f := audit.VerifyAnchors(tt.change(fresh()))
		if f == nil || f.Code != tt.want || f.Entity != "anchor of "+tt.of || f.Sequence != tt.at {
			t.Errorf("%s: %v, want %s of %s at %d", name, f, tt.want, tt.of, tt.at)
		}
	}
}
