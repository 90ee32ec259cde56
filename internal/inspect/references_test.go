package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// recent is an engine that has these jobs, newest first.
type recent struct {
	link.Engine
	jobs []*pawl.Job
	seen int
}

func (r *recent) RecentJobs(_ context.Context, _ string, limit int, f func(*pawl.Job) bool) error {
	for _, j := range r.jobs[:min(limit, len(r.jobs))] {
		if r.seen++; !f(j) {
			break
		}
	}
	return nil
}

func job(t *testing.T, id, workflow string, parent rowkey.Job) *pawl.Job {
	t.Helper()
	parsed, err := pawl.ParseID(pawl.JobPrefix, "j_"+id)
	if err != nil {
		t.Fatal(err)
	}
	return &pawl.Job{ID: parsed, Workflow: workflow, Parent: parent}
}

func TestJobReferences(t *testing.T) {
	t.Parallel()
	const child, newest, other, old = "019a3c7e5b7a7c1d8000000040a1b2c3", "019a3c7e5b7a7c1d80000000ffffffff", "019a3c7e5b7a7c1d80000000000fffff", "0188888888887c1d8000000040a1b2c4"
	jobs := []*pawl.Job{job(t, child, "cleanup", 7), job(t, newest, "nightly", 0), job(t, other, "last", 0), job(t, old, "nightly", 0)}
	for text, want := range map[string]string{
		"last": newest, "last:cleanup": child, "last:nightly": newest, "last:last": other,
		"j_" + old: old, old: old, "j_" + strings.Repeat("0", 12) + old[12:]: strings.Repeat("0", 12) + old[12:], // a whole id is not looked up
		"b2c3": child, "40a1b2c4": old, "j_b2c4": old, "018888": old, "j_019a3c7e5b7a7c1d80000000f": newest,
		"01888":  "there is no job 01888 among the newest 10000 of workspace default",
		"ffff":   "job ffff: 2 jobs have these digits: j_" + newest + " (nightly), j_" + other + " (last)",
		"019a3c": "job 019a3c: 3 jobs have these digits: ",
		"last:x": "there is no job of workflow x among the newest 10000 of workspace default",
		"last:":  `job "last:": want `, "2c3": `job "2c3": want `, "LAST": `job "LAST": want `, "lastly": `job "lastly": want `,
	} {
		id, err := Job(t.Context(), client.Over(&recent{jobs: jobs}, client.Config{}, nil), "default", text)
		got := id.Public("")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// A reference is looked for among so many jobs and no more, and the candidates of one that is
// not clear fit on a screen.
func TestJobReferencesAreBounded(t *testing.T) {
	t.Parallel()
	r := &recent{}
	for i := range refWithin + 1 {
		r.jobs = append(r.jobs, job(t, fmt.Sprintf("019a3c7e5b7a7c1d800000%06x0abc", i), "nightly", 0))
	}
	r.jobs[refWithin].ID[15] = 0xbd // the last digits of this one are its own, but it is too old
	var e *pawl.Error
	if _, err := Job(t.Context(), client.Over(r, client.Config{}, nil), "default", "0abd"); !errors.As(err, &e) || e.Kind != pawl.NotFound || r.seen != refWithin {
		t.Errorf("%v after %d jobs", err, r.seen)
	}
	r.jobs[7].ID[15] = 0xcd // alone with its digits among the newest, but perhaps not among all
	if _, err := Job(t.Context(), client.Over(r, client.Config{}, nil), "default", "0acd"); err == nil || !strings.Contains(err.Error(), "one of the older ones may have these digits, too") {
		t.Errorf("4 digits of one of many: %v", err)
	}
	if id, err := Job(t.Context(), client.Over(r, client.Config{}, nil), "default", lastOf(r.jobs[7], sureLast)); err != nil || id != r.jobs[7].ID {
		t.Errorf("%d digits of one of many: %v", sureLast, err)
	}
	r.jobs[7].ID[15] = 0xbc
	if _, err := Job(t.Context(), client.Over(r, client.Config{}, nil), "default", "0abc"); err == nil || !strings.HasSuffix(err.Error(), " and 9995 more") || len(err.Error()) > 400 {
		t.Errorf("got %v", err)
	}
}
