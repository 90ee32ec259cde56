package stats

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// TestTables: what two agents have sent is the sum of both, errors by class and both histograms
// included, and a table that was sent and added is the same table (L7).
func TestTables(t *testing.T) {
	t.Parallel()
	one := Table{}
	for agent := range 2 {
		table := Table{
			{"read", "<=64KiB"}: {Operations: 2, Bytes: 8192, Service: latencies(100, 200), Response: pointer(latencies(1000, int64(agent)))},
			{"stat", ""}:        {Operations: 1, Errors: map[string]uint64{"not_found": 1}, Service: latencies(7)},
		}
		if err := one.Add(table.Proto()); err != nil {
			t.Fatal(err)
		}
	}
	want := Table{
		{"read", "<=64KiB"}: {Operations: 4, Bytes: 16384, Service: latencies(100, 200, 100, 200), Response: pointer(latencies(1000, 0, 1000, 1))},
		{"stat", ""}:        {Operations: 2, Errors: map[string]uint64{"not_found": 2}, Service: latencies(7, 7)},
	}
	if diff := cmp.Diff(want, one, cmp.AllowUnexported(histogram.Histogram{})); diff != "" {
		t.Error(diff)
	}
	merged := Table{}
	merged.Merge(want)
	if diff := cmp.Diff(want.Proto(), merged.Proto(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestTorn: a histogram that is not well-formed is an error that names its operation.
func TestTorn(t *testing.T) {
	t.Parallel()
	for class, want := range map[string]string{"": "statistics of read: ", "0": "statistics of read 0: "} {
		whole, torn := &loadpb.Histogram{Buckets: []byte{1, 1}}, &loadpb.Histogram{Buckets: []byte{1}}
		for _, sent := range []*loadpb.OperationStats{{Service: torn}, {Service: whole, Response: torn}} {
			sent.Operation, sent.SizeClass, sent.Operations = "read", class, 1
			table := Table{}
			if err := table.Add([]*loadpb.OperationStats{sent}); err == nil || err.Error() != want+"the buckets of a histogram end within a number" {
				t.Error(err)
			}
			if c := table[Key{"read", class}]; c.Operations != 0 || c.Service.Count() != 0 {
				t.Errorf("added all the same: %d operations, %d latencies", c.Operations, c.Service.Count())
			}
		}
	}
}

func latencies(all ...int64) (h histogram.Histogram) {
	for _, v := range all {
		h.Record(v)
	}
	return h
}

func pointer(h histogram.Histogram) *histogram.Histogram { return &h }
