package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// fan returns a workflow with a fan-out over so many items, of which one in every fails.
func fan(items, every int) string {
	list := make([]string, items)
	for i := range list {
		list[i] = fmt.Sprintf("%q", strings.Repeat("x", min(1, i%every)))
	}
	return `name: fan
on_error: drain
steps:
  - {id: load, foreach: [` + strings.Join(list, ",") + `], handler: work, with: {fail: "${{ item == '' ? 'broken' : '' }}"}, retry: {max_attempts: 2, base: 1ms, cap: 1ms}}
  - {id: after, needs: [load], handler: work}
`
}

// read decodes the response to a request.
func read[T any](t testing.TB, s *site, path string) (v T) {
	t.Helper()
	if err := json.Unmarshal(s.want(200, "GET", path, "").body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

type spans struct {
	Items []struct {
		Step      string
		Spans     []map[string]any
		Instances *struct {
			Kinds map[string][]int
		}
	}
}

// TestTenThousandInstances: of a fan-out of 10,000 the states are 10 KB and the timeline is
// bounded (J4).
func TestTenThousandInstances(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n = 10_000
	defer s.work()()
	job := s.want(201, "POST", "/api/jobs", text(map[string]any{"source": `name: wide
inputs: {items: {type: array}}
steps: [{id: load, foreach: "${{ inputs.items }}", handler: work}]
`, "inputs": map[string]any{"items": make([]int, n)}})).field(t, "id").(string)
	path := "/api/jobs/" + job + "/steps/load/states"
	for range 4 {
		if s.want(200, "GET", "/api/jobs/"+job+"?wait=ended", "").field(t, "status") == "COMPLETED" {
			break
		}
	}
	if states := s.want(200, "GET", path, "").field(t, "states"); states != strings.Repeat("c", n) {
		t.Fatalf("the states: %.60s", states)
	}
	if size := len(s.want(200, "GET", path, "").body); size > n+500 {
		t.Errorf("the states are %d bytes", size)
	}
	if size := len(s.want(200, "GET", "/api/jobs/"+job+"/timeline", "").body); size > 10_000 {
		t.Errorf("the timeline is %d bytes", size)
	}
	s.want(200, "GET", "/api/jobs/"+job+"/steps?node=load&fields=summary&status=complete", "")
}

// TestDetailsOfAMoment: what steps, states and spans were at a moment is what a replay of the
// trail says (K6).
func TestDetailsOfAMoment(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	defer s.work()()
	job := s.want(201, "POST", "/api/jobs", text(map[string]any{"source": fan(40, 7)})).field(t, "id").(string)
	path := "/api/jobs/" + job
	s.want(200, "GET", path+"?wait=ended", "")

	type row struct {
		Step string
		To   string
		At   pawl.Timestamp
	}
	var rows []row
	for cursor := ""; ; {
		p := read[struct {
			Items []row
			Next  string
		}](t, s, path+"/history?limit=100&cursor="+cursor)
		rows = append(rows, p.Items...)
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	letters := map[string]byte{"pending": 'p', "enqueued": 'q', "in_progress": 'r', "complete": 'c', "retryable_error": 't', "permanent_error": 'f', "cancelled": 'x', "skipped": 's'}
	for _, i := range []int{len(rows) / 4, len(rows) / 2, 3 * len(rows) / 4, len(rows) - 1} {
		at := rows[i].At
		now := map[string]string{} // a replay
		for _, r := range rows {
			if r.At <= at && r.Step != "" {
				now[r.Step] = r.To
			}
		}
		want := []byte{}
		for n := range 40 {
			letter := byte('-')
			if state, made := now[fmt.Sprintf("load[%d]", n)]; made {
				letter = letters[state]
			}
			want = append(want, letter)
		}
		got := s.want(200, "GET", path+"/steps/load/states?at="+at.String(), "").field(t, "states").(string)
		if strings.TrimRight(got, "-") != strings.TrimRight(string(want), "-") {
			t.Errorf("at %s:\n%s, a replay says\n%s", at, got, want)
		}
		listed := map[string]string{}
		for cursor := ""; ; {
			p := read[struct {
				Items []struct {
					Key, Status string
					Omitted     bool
				}
				Next string
			}](t, s, path+"/steps?limit=17&fields=summary&at="+at.String()+"&cursor="+cursor)
			for _, v := range p.Items {
				listed[v.Key] = v.Status
			}
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(now, listed); diff != "" {
			t.Errorf("the steps at %s (-replay +listed):\n%s", at, diff)
		}
	}

	whole := read[spans](t, s, path+"/timeline")
	kinds := whole.Items[0].Instances.Kinds
	if len(kinds["run"]) == 0 || len(kinds["backoff"]) == 0 || len(kinds["run"]) > 201 {
		t.Errorf("the instances: %v", kinds)
	}
	one := read[spans](t, s, path+"/timeline?step=load[0]")
	var order []string
	for _, v := range one.Items[0].Spans {
		if v["kind"] != "queue" { // it may be claimed in the commit that enqueues it
			order = append(order, v["kind"].(string))
		}
	}
	if diff := cmp.Diff([]string{"run", "backoff", "run"}, order); diff != "" {
		t.Errorf("an instance that has failed twice (-want +got):\n%s", diff)
	}
	step := s.want(200, "GET", path+"/steps?key=load[0]", "").field(t, "items.0.id").(string)
	attempts := s.want(200, "GET", "/api/steps/"+step+"/attempts", "")
	if attempts.field(t, "items.1.error.message") != "broken" || attempts.field(t, "items.0.event") != "fail" || attempts.field(t, "items.1.attempt") != 2.0 {
		t.Errorf("its attempts: %s", attempts.body)
	}

	m := read[struct {
		Moves, Failures []int
		Sequence        []int64
	}](t, s, path+"/moments?buckets=10")
	moves, failures := 0, 0
	for i := range m.Moves {
		moves, failures = moves+m.Moves[i], failures+m.Failures[i]
	}
	if moves != len(rows) || failures < 12 || len(m.Moves) > 10 {
		t.Errorf("%d moves and %d failures in %d buckets, and the history has %d", moves, failures, len(m.Moves), len(rows))
	}
	last := m.Sequence[len(m.Sequence)-1]
	if as := s.want(200, "GET", fmt.Sprintf("%s/steps/after/states?seq=%d", path, last), "").field(t, "states"); as == "" {
		t.Errorf("at the last move the step after has no state")
	}
}
