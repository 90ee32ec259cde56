package spec_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

var update = flag.Bool("update", false, "rewrite the expected faults")

func read(t testing.TB, path string) []byte {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestDefaults: the smallest file has all defaults filled in (L2, L9).
func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := spec.Parse(read(t, "testdata/good/least.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := &spec.Test{
		Name: "least", Target: "load", Seed: 1,
		Files:  []spec.FileSet{{Name: "data", Count: 1, Size: spec.Size{Fixed: 1 << 20}, Blocks: spec.WriteBlocks}},
		Mix:    []spec.Operation{{Kind: spec.Read, Files: "data", Weight: 1, Block: spec.Size{Fixed: 4096}, Access: spec.Access{Pattern: spec.Random}}},
		Engine: spec.Threads, Sync: spec.SyncNone, Jobs: 1, Depth: 1, Duration: 30 * time.Second, Interval: time.Second,
		Cleanup: spec.Cleanup{Completed: spec.DeleteCreated, Error: spec.DeleteCreated, Aborted: spec.DeleteCreated},
		Timeouts: spec.Timeouts{
			Config: 30 * time.Second, Prepare: 30 * time.Second, Start: time.Minute, Silence: 10 * time.Second,
			Acknowledge: 5 * time.Second, Lease: 30 * time.Second, Abort: time.Second,
		},
		Start: spec.Start{Delay: time.Second, Policy: spec.All},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEveryKey: every key has its effect (L9).
func TestEveryKey(t *testing.T) {
	t.Parallel()
	got, err := spec.Parse(read(t, "testdata/good/all.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := &spec.Test{
		Name: "everything", Description: "All keys.", Target: "bench/nightly", Shared: true, Seed: 7,
		Files: []spec.FileSet{
			{Name: "data", Count: 4, Size: spec.Size{Fixed: 256 << 20}, Tree: spec.Tree{Width: 10, Depth: 2}, Content: spec.Content{Compressible: 50}, Blocks: spec.WriteBlocks},
			{Name: "mixed", Count: 10, Size: spec.Size{Uniform: &spec.Uniform{Min: 4096, Max: 1 << 20}}, Blocks: spec.WriteBlocks},
			{Name: "curve", Count: 10, Size: spec.Size{Lognormal: &spec.Lognormal{Mean: 64 << 10, Deviation: 32 << 10, Min: 4096, Max: 1 << 20}}, Blocks: spec.NoBlocks},
			{Name: "some", Count: 10, Size: spec.Size{List: []spec.Weighted{{Size: 4096, Weight: 70}, {Size: 1e6, Weight: 30}}}, Blocks: spec.ReserveBlocks},
			{Name: "fresh", Blocks: spec.WriteBlocks},
		},
		Mix: []spec.Operation{
			{Kind: spec.Read, Files: "data", Weight: 70, Block: spec.Size{Fixed: 4096}, Access: spec.Access{Pattern: spec.Random}},
			{Kind: spec.Write, Files: "data", Weight: 1, Block: spec.Size{List: []spec.Weighted{{Size: 512, Weight: 1}, {Size: 8192, Weight: 3}}}, Access: spec.Access{Pattern: spec.Zipf, Theta: 1.1}},
			{Kind: spec.Append, Files: "mixed", Weight: 1, Block: spec.Size{Uniform: &spec.Uniform{Min: 1, Max: 100}}, Access: spec.Access{Pattern: spec.Sequential}},
			{Kind: spec.Create, Files: "fresh", Weight: 1, Block: spec.Size{Lognormal: &spec.Lognormal{Mean: 64 << 10, Max: 1 << 20}}, Access: spec.Access{Pattern: spec.Random}},
			{Kind: spec.Stat, Files: "fresh", Weight: 1, Access: spec.Access{Pattern: spec.Zipf, Theta: 0.99}},
		},
		Engine: spec.Uring, Sync: spec.SyncData, Jobs: 2, Depth: 32, Rate: &spec.Rate{Operations: 1000.5, Arrival: spec.Poisson},
		Warmup: 5 * time.Second, Duration: 10 * time.Second, Interval: 500 * time.Millisecond,
		Errors:  spec.ErrorBudget{Count: 10, Percent: 0.5},
		Cleanup: spec.Cleanup{Completed: spec.DeleteCreated, Error: spec.DeleteNothing, Aborted: spec.DeleteNothing},
		Timeouts: spec.Timeouts{
			Config: 10 * time.Second, Prepare: 20 * time.Second, Start: 2 * time.Minute, Silence: 5 * time.Second,
			Acknowledge: 2 * time.Second, Lease: 15 * time.Second, Abort: 2 * time.Second,
		},
		Start: spec.Start{Delay: 500 * time.Millisecond, Policy: spec.Quorum, Quorum: 2},
		Threshold: []spec.Threshold{
			{Operation: spec.Read, Metric: spec.P50, Limit: 1e6}, {Operation: spec.Read, Metric: spec.P90, Limit: 2e6}, {Operation: spec.Read, Metric: spec.P99, Limit: 1e7},
			{Operation: spec.Read, Metric: spec.P999, Limit: 2e7}, {Operation: spec.Read, Metric: spec.Maximum, Limit: 1e9},
			{Metric: spec.Failures}, {Metric: spec.Throughput, Limit: 100 << 20}, {Metric: spec.Operations, Limit: 1000},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestObjectStore: the keys of an object store, and what they are without a word: a read is of the whole object.
func TestObjectStore(t *testing.T) {
	t.Parallel()
	got, err := spec.Parse(read(t, "testdata/good/objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := &spec.ObjectStore{Endpoint: "https://s3.example.com:9000", Bucket: "bench", Region: "eu-west-1", PartSize: 8 << 20, PartsAtOnce: 4, Retries: 2, Page: 100, Timeout: 5 * time.Second, SignPayload: true}
	if diff := cmp.Diff(want, got.S3); diff != "" {
		t.Error(diff)
	}
	if !got.Mix[0].Whole() || got.Mix[1].Whole() || !got.Mix[2].Whole() || got.Mix[3].Whole() || got.Depth != 8 {
		t.Errorf("%+v", got.Mix)
	}
	if got, err = spec.Parse([]byte("{name: least, engine: s3, files: [{name: data, count: 1, size: 1}], mix: [{operation: read}]}")); err != nil {
		t.Fatal(err)
	}
	want = &spec.ObjectStore{Region: "us-east-1", PartSize: 16 << 20, PartsAtOnce: 1, Page: 1000, Timeout: 30 * time.Second}
	if diff := cmp.Diff(want, got.S3); diff != "" {
		t.Error(diff)
	}
}

// TestBadFiles: each fault has its place, the value, and what is allowed. The faults of
// testdata/bad/NAME.yaml are in NAME.txt.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			_, err := spec.ParseFile(filepath.Base(path), read(t, path))
			var problems document.Problems
			if !errors.As(err, &problems) {
				t.Fatal("want problems, got", err)
			}
			expected := strings.TrimSuffix(path, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(expected, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, expected)), err.Error()+"\n"); diff != "" {
				t.Error(diff)
			}
		})
	}
}
