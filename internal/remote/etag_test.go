package remote

import "testing"

// TestVersionInAnETag: a proxy that compresses responses makes ETags weak (J4).
func TestVersionInAnETag(t *testing.T) {
	t.Parallel()
	for etag, want := range map[string]int64{`"5"`: 5, `W/"5"`: 5, "": 0, "5": 0} {
		got, err := new(Engine).versionIn(&answer{etag: etag})
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("the version in %q is %d, %v; want %d", etag, got, err, want)
		}
	}
}
