package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// An answered request is a response with its body.
type answered struct {
	*http.Response
	text []byte
}

// ask sends a request with JSON. A connection that breaks is an error.
func (s *answering) ask(method, path string, body any, cookies ...*http.Cookie) (*answered, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return &answered{resp, text}, err
}

// want is ask for a request that has to be answered with a status.
func (f *fleet) want(s *answering, status int, method, path string, body any, cookies ...*http.Cookie) *answered {
	f.t.Helper()
	a, err := s.ask(method, path, body, cookies...)
	if err != nil {
		f.t.Fatal(err)
	}
	if a.StatusCode != status {
		f.t.Fatalf("%s %s: %d %.1000s, want %d", method, path, a.StatusCode, a.text, status)
	}
	return a
}

// into decodes the JSON of a response.
func (f *fleet) into(a *answered, v any) {
	f.t.Helper()
	if err := json.Unmarshal(a.text, v); err != nil {
		f.t.Fatalf("%v in %.1000s", err, a.text)
	}
}

// next kills a server, and starts another one on its database.
func (f *fleet) next(s *answering) *answering {
	f.t.Helper()
	f.kill(s)
	return f.serve()
}

// waiting is a workflow that waits for a person, and needs no worker.
const waiting = "name: waiting\nsteps: [{id: a, approval: {prompt: 'Go on?'}}]\n"

func newWaitingFleet(t *testing.T) (*fleet, *answering) {
	t.Helper()
	f := newFleet(t, "sqlite://"+filepath.Join(t.TempDir(), "pawl.db"))
	file := filepath.Join(f.dir, "waiting.yaml")
	if err := os.WriteFile(file, []byte(waiting), 0o600); err != nil {
		t.Fatal(err)
	}
	f.say("workflow", "register", file)
	return f, f.serve()
}

// jobs submits jobs of the workflow that waits, at once.
func (f *fleet) jobs(s *answering, n int, parent string) (ids []string) {
	f.t.Helper()
	one := map[string]any{"workflow": "waiting"}
	if parent != "" {
		one["parent_job_id"] = parent
	}
	var many []any
	for range n {
		many = append(many, one)
	}
	var made struct {
		Items []struct{ Receipt struct{ ID string } }
	}
	a := f.want(s, 200, "POST", "/api/jobs/batch", map[string]any{"jobs": many})
	f.into(a, &made)
	for _, item := range made.Items {
		if item.Receipt.ID == "" {
			f.t.Fatalf("a job was not made: %.1000s", a.text)
		}
		ids = append(ids, item.Receipt.ID)
	}
	return ids
}

// cancels returns how often a job was canceled.
func (f *fleet) cancels(job string) (n int) {
	f.t.Helper()
	var trail []pawl.Transition
	f.parse(&trail, "job", "history", job, "-o", "json")
	for _, m := range trail {
		if m.Entity == job && m.To == lifecycle.JobCanceled {
			n++
		}
	}
	return n
}

// TestFamiliesAreCanceledAfterAKill: a cancel of a job that was acknowledged reaches all its
// descendants, though the server was killed with signal 9 at once (J6, T10).
func TestFamiliesAreCanceledAfterAKill(t *testing.T) {
	t.Parallel()
	f, s := newWaitingFleet(t)
	root := f.jobs(s, 1, "")[0]
	family := f.jobs(s, 8, root)
	family = append(family, f.jobs(s, 8, family[0])...)
	f.want(s, 200, "POST", "/api/jobs/"+root+"/cancel", map[string]any{})
	s = f.next(s)
	for _, id := range append(family, root) {
		f.until("job "+id+" is canceled", func() bool {
			var v pawl.JobView
			f.into(f.want(s, 200, "GET", "/api/jobs/"+id, nil), &v)
			return v.Status == lifecycle.JobCanceled
		})
	}
	f.say("audit", "verify")
}

// TestBulkAfterAKill: a bulk request whose server was killed with signal 9 can be repeated: it
// changes the same jobs, none of them twice, and has a result for each (J8).
func TestBulkAfterAKill(t *testing.T) {
	t.Parallel()
	const jobs = 150
	f, s := newWaitingFleet(t)
	ids := f.jobs(s, jobs, "")
	bulk := map[string]any{"request_id": "bulk-1", "filter": map[string]any{"workflow": "waiting"}}
	over := make(chan error, 1)
	go func() {
		_, err := s.ask("POST", "/api/bulk/cancel", bulk)
		over <- err
	}()
	f.until("some jobs are canceled", func() bool {
		a, err := s.ask("GET", "/api/jobs?status=CANCELED&limit=1", nil)
		return err == nil && bytes.Contains(a.text, []byte(`"id":"j_`))
	})
	f.kill(s)
	t.Logf("the first request ended with %v", <-over)
	s = f.serve()
	f.jobs(s, 3, "") // that are not part of it
	first := f.want(s, 200, "POST", "/api/bulk/cancel", bulk)
	var answer struct {
		Count int
		Items []struct {
			ID      string
			Problem any
		}
	}
	f.into(first, &answer)
	if answer.Count != jobs || len(answer.Items) != jobs {
		t.Errorf("%d jobs are selected, with %d results, want %d", answer.Count, len(answer.Items), jobs)
	}
	for _, item := range answer.Items {
		if item.Problem != nil {
			t.Errorf("job %s: %v", item.ID, item.Problem)
		}
	}
	if again := f.want(s, 200, "POST", "/api/bulk/cancel", bulk); !bytes.Equal(again.text, first.text) {
		t.Errorf("the response is %.1000s, and was %.1000s", again.text, first.text)
	}
	for _, id := range []string{ids[0], ids[jobs/2], ids[jobs-1]} {
		if n := f.cancels(id); n != 1 {
			t.Errorf("job %s was canceled %d times", id, n)
		}
	}
	f.say("audit", "verify")
}

// TestBatchAfterAKill: a batch of submissions with a key whose server was killed with signal 9 can be
// repeated: it makes the jobs that are missing, none of them twice, and has the same answer from then
// on (J8).
func TestBatchAfterAKill(t *testing.T) {
	t.Parallel()
	const jobs = 500
	f, s := newWaitingFleet(t)
	var steps []string // so many that the jobs take several commits
	for i := range 60 {
		steps = append(steps, fmt.Sprintf("{id: s%d, approval: {prompt: x}}", i))
	}
	f.want(s, 201, "POST", "/api/workflows", map[string]any{"source": "name: wide\nsteps: [" + strings.Join(steps, ", ") + "]\n"})
	var many []any
	for i := range jobs {
		many = append(many, map[string]any{"workflow": "wide", "task_description": fmt.Sprint("n", i)})
	}
	batch := map[string]any{"request_id": "batch-1", "jobs": many}
	over := make(chan error, 1)
	go func() {
		_, err := s.ask("POST", "/api/jobs/batch", batch)
		over <- err
	}()
	f.until("some jobs are made", func() bool {
		a, err := s.ask("GET", "/api/jobs?limit=1", nil)
		return err == nil && bytes.Contains(a.text, []byte(`"id":"j_`))
	})
	f.kill(s)
	t.Logf("the first request ended with %v", <-over)
	s = f.serve()
	first := f.want(s, 200, "POST", "/api/jobs/batch", batch)
	s = f.next(s)
	if again := f.want(s, 200, "POST", "/api/jobs/batch", batch); !bytes.Equal(again.text, first.text) || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the response is %.1000s, and was %.1000s", again.text, first.text)
	}
	var made []struct {
		Description string `json:"task_description"`
	}
	f.parse(&made, "jobs", "-o", "json", "--limit", "1000")
	seen := map[string]bool{}
	for _, m := range made {
		seen[m.Description] = true
	}
	if len(made) != jobs || len(seen) != jobs {
		t.Errorf("there are %d jobs, %d of them different, want %d", len(made), len(seen), jobs)
	}
	f.say("audit", "verify")
}

// TestSignedOutAfterAKill: who has signed out stays so, and a webhook that was made stays, though
// the server was killed with signal 9 at once (T13).
func TestSignedOutAfterAKill(t *testing.T) {
	t.Parallel()
	f, s := newWaitingFleet(t)
	var token struct{ Secret string }
	f.into(f.want(s, 201, "POST", "/api/tokens", map[string]any{"name": "ci", "roles": []string{"viewer"}}), &token)
	in := f.want(s, 201, "POST", "/api/session", map[string]any{"token": token.Secret})
	cookies := in.Cookies()
	s = f.next(s)
	viewer := func() bool { // nobody is local, with all roles
		var v struct{ Roles []string }
		f.into(f.want(s, 200, "GET", "/api/session", nil, cookies...), &v)
		return len(v.Roles) == 1
	}
	if !viewer() {
		t.Error("after a kill the session is gone")
	}
	var hook struct{ ID string }
	f.into(f.want(s, 201, "POST", "/api/webhooks", map[string]any{"name": "hook", "url": "http://127.0.0.1:9/x"}), &hook)
	f.want(s, 204, "DELETE", "/api/session", nil, cookies...)
	s = f.next(s)
	if viewer() {
		t.Error("after signing out and a kill the session is there")
	}
	f.want(s, 200, "GET", "/api/webhooks/"+hook.ID, nil)
	f.say("audit", "verify")
}
