package store

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

func TestFeedTokens(t *testing.T) {
	t.Parallel()
	for _, want := range []FeedToken{
		{Epoch: 1},
		{Epoch: math.MaxUint64, At: math.MaxInt64, Next: math.MaxUint64},
		{Epoch: 7, At: 1764175000000000, Next: 1000, Open: []uint64{0, 1, 730, 999}},
	} {
		got, err := ParseFeedToken(want.String())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", want, err, diff)
		}
	}
	long := FeedToken{Epoch: 1, Next: 1 << 40}
	for i := range uint64(2000) {
		long.Open = append(long.Open, i*1000)
	}
	if long.String() != "" {
		t.Errorf("a token of %d bytes", len(long.String()))
	}
	for _, bad := range []string{"", "1", "1.2", "1.2.3.4", "1.2.3.0", "1.2.3.1.2", "x y.2.3", "1.2.-3", "01.2.3", "1.2.3.", "Z.2.3",
		"1.2.3" + strings.Repeat(".1", maxFeedToken)} {
		if got, err := ParseFeedToken(bad); err == nil {
			t.Errorf("%.40q is read as %+v", bad, got)
		}
	}
}

func TestFeedTokensSee(t *testing.T) {
	t.Parallel()
	token := FeedToken{Next: 10, Open: []uint64{3, 7}}
	for n := range uint64(12) {
		if want := n < 10 && n != 3 && n != 7; token.Sees(n) != want {
			t.Errorf("sees %d: %v", n, !want)
		}
	}
	for _, tt := range []struct {
		of   FeedToken
		want bool
	}{
		{token, true},
		{FeedToken{Next: 9, Open: []uint64{3, 7}}, true},
		{FeedToken{Next: 10, Open: []uint64{3, 5, 7}}, true},
		{FeedToken{Next: 10, Open: []uint64{3}}, false},
		{FeedToken{Next: 11, Open: []uint64{3, 7}}, false},
		{FeedToken{}, true},
	} {
		if got := token.Covers(&tt.of); got != tt.want {
			t.Errorf("covers %+v: %v", tt.of, got)
		}
	}
}

func TestFeedRows(t *testing.T) {
	t.Parallel()
	entry := func(k EntityKey, seq int64) Entry { return Entry{k, audit.Entry{Sequence: seq}} }
	job := rowkey.Job(1<<58 + 12345)
	step := func(job rowkey.Job, node, instance int) EntityKey {
		return StepEntity(pawl.StepKey{Job: job, Ord: pawl.MakeOrd(node, instance)})
	}
	all := []Entry{
		entry(JobEntity(job), 1), entry(step(job, 1, 0), 1), entry(step(job, 2, 70_000), 1<<40),
		entry(JobEntity(job-3), 9), entry(step(job+7, 1, 0), 2),
		entry(WorkerEntity(rowkey.Worker(job)), 3), entry(ScheduleEntity(5), 4), entry(PauseEntity(7), 2), entry(ScheduleEntity(8), 1),
		entry(TokenEntity(rowkey.Token(job)), 1), entry(WebhookEntity(3), 7),
	}
	var packed []Packed
	for i := range all[:5] {
		packed = append(packed, Packed{Entry: &all[i]})
	}
	row := FeedRowsOf(packed, all)
	var want, got []string
	for i := range all {
		want = append(want, fmt.Sprint(all[i].EntityKey, all[i].Sequence))
	}
	read := func(b FeedRows) error {
		got = nil
		return b.Each(func(k EntityKey, seq int64) { got = append(got, fmt.Sprint(k, seq)) })
	}
	if err := read(row); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	if one := FeedRowsOf(packed[:1], nil); len(one) > 12 {
		t.Errorf("the row of one job has %d bytes", len(one))
	}
	if FeedRowsOf(nil, all[:5]) != nil {
		t.Error("entries that are not in rows have a row")
	}
	if err := read(row[:len(row)-1]); err == nil {
		t.Error("a row that is cut off is read")
	}
}
