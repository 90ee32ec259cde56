package audit_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The worked example of the package documentation.
func ExampleEntry_Seal() {
	e := audit.Entry{
		Entity:   "j_019373a1c4007abc8123000000200001",
		Sequence: 1,
		To:       "SUBMITTED",
		Event:    "submit",
		Reason:   "nightly",
		Actor:    "operator",
		Metadata: []byte(`{"try":1}`),
		At:       1763719200123456,
	}
	e.Seal(audit.Hash{})
	fmt.Printf("%s\n", e.AppendCanonical(nil))
	fmt.Printf("%x\n", e.Hash)

	line, _ := json.Marshal(e)
	fmt.Printf("%s\n", line)
	// Output:
	// 34:j_019373a1c4007abc81230000002000011:10:9:SUBMITTED6:submit7:nightly8:operator0:9:{"try":1}16:1763719200123456
	// cce32bbaf9ba8fcbb59e3aba951d076bdbe96802bb240d452ad32694b060f678
	// {"entity":"j_019373a1c4007abc8123000000200001","sequence":1,"from":null,"to":"SUBMITTED","event":"submit","reason":"nightly","actor":"operator","request_id":"","metadata":{"try":1},"at":"2025-11-21T10:00:00.123456Z","hash":"cce32bbaf9ba8fcbb59e3aba951d076bdbe96802bb240d452ad32694b060f678"}
}

// The example that the documentation promises is the one that runs.
func TestK6CanonicalFormIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	e := audit.Entry{Entity: jobID, Sequence: 1, To: lifecycle.JobSubmitted, Event: lifecycle.JobSubmit,
		Reason: "nightly", Actor: "operator", Metadata: []byte(`{"try":1}`), At: start}
	if form := string(e.AppendCanonical(nil)); !strings.Contains(string(doc), "\n//\t"+form+"\n") {
		t.Errorf("doc.go does not have the canonical form\n%s", form)
	}
}

// twin is the canonical form as the documentation puts it, without care for speed.
func twin(e *audit.Entry) string {
	var form string
	for _, f := range []any{e.Entity, e.Sequence, e.From, e.To, e.Event, e.Reason, e.Actor, e.RequestID, string(e.Metadata), e.At} {
		s := fmt.Sprint(f)
		form += fmt.Sprintf("%d:%s", len(s), s)
	}
	return form
}

// K6: the hash is what the documentation says, whatever the length of the entry.
func TestK6SealIsTheDocumentedDigest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		e := audit.Entry{
			Entity: text.Draw(t, "entity"), Sequence: rapid.Int64().Draw(t, "sequence"), At: rapid.Int64().Draw(t, "at"),
			Reason:   strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 500, 700, 4000, 4096, 5000, 70_000}).Draw(t, "length")),
			Metadata: rapid.SliceOf(rapid.Byte()).Draw(t, "metadata"),
		}
		var prev audit.Hash
		copy(prev[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "prev"))
		e.Seal(prev)
		if want := sha256.Sum256([]byte(string(prev[:]) + twin(&e))); e.Hash != want {
			t.Errorf("hash %x, want %x", e.Hash, want)
		}
	})
}

// Seal makes what comes from elsewhere storable.
func TestSealRepairsTexts(t *testing.T) {
	t.Parallel()
	e := audit.Entry{Reason: "a\xffb", Actor: "c\x00d", RequestID: "fine: \u2028é"}
	e.Seal(audit.Hash{})
	if e.Reason != "a\uFFFDb" || e.Actor != "c\uFFFDd" || e.RequestID != "fine: \u2028é" {
		t.Errorf("got reason %q, actor %q, request id %q", e.Reason, e.Actor, e.RequestID)
	}
	again := e
	if again.Seal(audit.Hash{}); again.Hash != e.Hash {
		t.Error("the hash is not that of the repaired texts")
	}
}

// sample is an entry of the usual size, with n bytes of reason more.
func sample(n int) audit.Entry {
	return audit.Entry{
		Entity: "st_019373a1c4007abc8123000000200001", Sequence: 4, From: lifecycle.StepInProgress,
		To: lifecycle.StepComplete, Event: lifecycle.StepSuccess, Reason: "handler returned" + strings.Repeat("x", n),
		Actor: "w_019373a1c4007abc8123000000200001", RequestID: "6e7c2c5e-7b0f-4e0b-9a52-cc0d57a8f1f4",
		Metadata: []byte(`{"attempt":1,"claim":2}`), At: start,
	}
}

// Not parallel: it counts allocations.
func TestSealDoesNotAllocate(t *testing.T) {
	for _, n := range []int{0, 1000, 3800} {
		e := sample(n)
		if allocs := testing.AllocsPerRun(100, func() { e.Seal(e.Hash) }); allocs != 0 {
			t.Errorf("%d bytes of reason: %v allocations, want 0", n, allocs)
		}
	}
}

// One move of one entity costs one Seal.
func BenchmarkSeal(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprintf("reason=%d", n), func(b *testing.B) {
			e := sample(n)
			b.ReportAllocs()
			for b.Loop() {
				e.Seal(e.Hash)
			}
		})
	}
}
