package verify_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/rehearsal/rehearsaltest"
	"github.com/pawl-dev/pawl/internal/verify"
)

// What is left out of an exploration makes no difference: walks in which any step
// may end next, in any way, end only as explored paths do, and find nothing that
// is not found without them.
func TestReductionProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		def := rehearsaltest.Draw(t)
		report, err := verify.Verify(t.Context(), def, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !report.All {
			return // it does not claim anything
		}
		found := map[string]bool{}
		for _, f := range report.Findings {
			found[f.Rule+" "+f.Key] = true
		}
		for seed := range uint64(5) {
			end, findings, err := verify.Walk(def, rapid.Uint64().Draw(t, "walk")+seed)
			if err != nil {
				t.Fatal(err)
			}
			if report.Endings[end] == 0 {
				t.Fatalf("a walk ends %s, and no explored path does: %v", end, report.Endings)
			}
			for _, f := range findings {
				if !found[f.Rule+" "+f.Key] {
					t.Fatalf("a walk finds what the exploration did not:\n%s", f.Text("drawn"))
				}
			}
		}
	})
}

// For any workflow, the verification ends, and says that each path does.
func TestVerifyProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		report, err := verify.Verify(t.Context(), rehearsaltest.Draw(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Ends {
			t.Fatal(report.Text("drawn"))
		}
	})
}
