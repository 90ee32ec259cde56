package agent

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// TestStoreOf: a test on an object store gets a part of a bucket that the agent allows, or none (L6).
func TestStoreOf(t *testing.T) {
	t.Parallel()
	stores := []Root{{Path: "https://a.example.com/one/load"}, {Path: "https://b.example.com/one"}, {Path: "https://b.example.com/one/load/inner"}, {Path: "https://b.example.com/two/x"}}
	for _, test := range []struct {
		endpoint, bucket, target string
		want                     int // -1: none
	}{
		{"", "", "load", 0},
		{"", "two", "load", 3},
		{"https://B.example.com:443/", "", "load", 1},
		{"https://b.example.com", "one", "/load/inner/x", 2},
		{"https://b.example.com", "one", "/load/innermost", 1},
		{"", "", "/load", 0},
		{"", "", "/load/inner/x", 0},
		{"", "", "/x/y", 1},
		{"https://b.example.com", "two", "/xy", -1},
		{"https://b.example.com", "two", "/x/../y", -1},
		{"http://b.example.com", "", "load", -1},
		{"https://c.example.com", "", "load", -1},
		{"", "three", "load", -1},
	} {
		got := StoreOf(stores, &spec.Test{Target: test.target, Engine: spec.S3, S3: &spec.ObjectStore{Endpoint: test.endpoint, Bucket: test.bucket}})
		if (got == nil) != (test.want < 0) || got != nil && got != &stores[test.want] {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
