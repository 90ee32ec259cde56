package agent

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/internal/load/s3"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// StoreOf returns which of some parts of buckets a test of the engine s3 is in: of those with its endpoint and its
// bucket, where it names them, the first one or, for an absolute target, the first one that has it, and of those in its
// bucket the innermost; nil if there is none.
func StoreOf(stores []Root, t *spec.Test) (found *Root) {
	var in s3.Location // of found
	for i, s := range stores {
		l, err := s3.ParseLocation(s.Path)
		if err != nil || !means(t.S3, l) || found != nil && (l.Endpoint != in.Endpoint || l.Bucket != in.Bucket) {
			continue
		}
		if !path.IsAbs(t.Target) {
			return &stores[i]
		}
		below, err := filepath.Rel("/"+l.Prefix, t.Target)
		if err == nil && filepath.IsLocal(below) && (found == nil || len(l.Prefix) > len(in.Prefix)) {
			found, in = &stores[i], l
		}
	}
	return found
}

// means reports whether a test means a bucket, which it need not name.
func means(o *spec.ObjectStore, l s3.Location) bool {
	endpoint, err := s3.ParseEndpoint(o.Endpoint)
	return (o.Endpoint == "" || err == nil && endpoint == l.Endpoint) && (o.Bucket == "" || o.Bucket == l.Bucket)
}

// wanted returns what a test names of an object store, for people.
func wanted(t *spec.Test) string {
	text := "target " + t.Target
	if t.S3.Bucket != "" {
		text = "bucket " + t.S3.Bucket + ", " + text
	}
	if t.S3.Endpoint != "" {
		text = "endpoint " + strings.TrimSuffix(t.S3.Endpoint, "/") + ", " + text
	}
	return text
}
