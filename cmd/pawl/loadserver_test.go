package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// endless is a load that goes on until it is ended.
const endless = "name: endless\nfiles: [{name: d, count: 1, size: 4KiB}]\nmix: [{operation: read}]\nengine: \"null\"\nrate: 100\nduration: 1h\ninterval: 100ms\nstart: {delay: 10ms}\n"

// A loadRunView is what the test reads of a run.
type loadRunView struct {
	State, Reason string
	Total         struct{ Operations int }
	Items         []struct {
		Entity, Event, Actor, Reason string
		Reachable                    bool
		Current                      *struct{} `json:"current_run"`
	}
}

// get reads a path of the API.
func (s *answering) get(t *testing.T, path string) (v loadRunView, body string) {
	t.Helper()
	r, err := http.Get(s.url + "/api/load/" + path)
	if err != nil {
		return v, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return v, string(b)
	}
	_ = json.Unmarshal(b, &v) // a stream is none
	return v, string(b)
}

// TestServerShowsLoads: a server shows a run that another process controls while it is on, and its agent;
// an operator ends it, which its trail says; one whose controller is killed is lost, for those who
// follow it, too; and so is one whose result cannot be written, of which what was measured is kept (L7, L11).
func TestServerShowsLoads(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sqlite://"+filepath.Join(t.TempDir(), "pawl.db"))
	dir, err := os.MkdirTemp("", "pawl-l-") // short: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	runs, file, socket := filepath.Join(dir, "runs"), filepath.Join(dir, "load.yaml"), "unix:"+filepath.Join(dir, "socket")
	for _, d := range []string{runs, filepath.Join(dir, "root")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(endless), 0o600); err != nil {
		t.Fatal(err)
	}
	f.start("agent", "--listen", socket, "--root", filepath.Join(dir, "root"), "--state-dir", filepath.Join(dir, "state"))
	address := freeAddress(t)
	s := &answering{f.start("server", "--listen", address, "--load", runs, "--load-agent", socket, "--load-agent", "127.0.0.1:1"), "http://" + address}
	f.until("the agent is shown", func() bool {
		v, _ := s.get(t, "agents")
		return len(v.Items) == 2 && v.Items[0].Reachable && v.Items[0].Current == nil && !v.Items[1].Reachable
	})

	first := f.start("load", "run", file, "--agents", socket, "--out", filepath.Join(runs, "first"))
	f.until("the run is on", func() bool {
		v, _ := s.get(t, "runs/first")
		return v.State == "running" && v.Total.Operations > 0
	})
	if v, body := s.get(t, "agents"); v.Items[0].Current == nil {
		t.Errorf("the agent has no run: %s", body)
	}
	r, err := http.NewRequest(http.MethodPost, s.url+"/api/load/runs/first/abort", strings.NewReader(`{"reason":"too slow"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Pawl-Actor", "ada")
	if a, err := http.DefaultClient.Do(r); err != nil || a.Body.Close() != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", a, err)
	}
	if err := first.Wait(); err == nil || first.ProcessState.ExitCode() != 1 || !strings.Contains(first.Stderr.(interface{ String() string }).String(), "aborted by ada: too slow") {
		t.Errorf("the run ended with %v: %s", err, first.Stderr)
	}
	if v, body := s.get(t, "runs/first"); v.State != "aborted" || v.Reason != "aborted by ada: too slow" {
		t.Errorf("the run is %s", body)
	}
	history, body := s.get(t, "runs/first/history?limit=100")
	asked := false
	for _, row := range history.Items {
		asked = asked || strings.HasPrefix(row.Entity, "lr_") && row.Event == "abort" && row.Actor == "ada" && row.Reason == "too slow"
	}
	if !asked || !strings.Contains(body, `"event":"workload_finished"`) && !strings.Contains(body, `"to":"ABORTED"`) {
		t.Errorf("the trail is %s", body)
	}
	f.say("audit", "verify", "--file", filepath.Join(runs, "first"))
	f.say("audit", "verify", "--file", filepath.Join(runs, "first", "trail.jsonl"))

	second := f.start("load", "run", file, "--out", filepath.Join(runs, "second"))
	f.until("the second run is on", func() bool {
		v, _ := s.get(t, "runs/second")
		return v.State == "running" && v.Total.Operations > 0
	})
	f.until("an interval of its agent is kept", func() bool {
		v, _ := s.get(t, "runs/second/intervals?agent=local-1")
		return len(v.Items) > 0
	})
	followed := make(chan string)
	go func() {
		_, body := s.get(t, "runs/second/follow")
		followed <- body
	}()
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait() // it was killed
	f.until("the second run is lost", func() bool {
		v, _ := s.get(t, "runs/second")
		return v.State == "lost"
	})
	if body := <-followed; !strings.Contains(body, "event: end\n") || !strings.Contains(body, `"outcome":"lost"`) {
		t.Errorf("who has followed it has seen\n%s", body)
	}
	f.say("audit", "verify", "--file", filepath.Join(runs, ".second.live"))
	if _, body := s.get(t, "runs/second/intervals?agent=local-1"); !strings.Contains(body, `"cpu_user_seconds":`) {
		t.Errorf("the intervals of the agent of a run whose controller was killed: %s", body)
	}

	third := f.start("load", "run", file, "--out", filepath.Join(runs, "third"))
	f.until("the third run is on", func() bool {
		v, _ := s.get(t, "runs/third")
		return v.State == "running" && v.Total.Operations > 0
	})
	if err := os.MkdirAll(filepath.Join(runs, "third", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := third.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(runs, ".third.live")
	if err := third.Wait(); err == nil || !strings.Contains(third.Stderr.(interface{ String() string }).String(), "what was measured while it ran is in "+journal) {
		t.Errorf("the third run ended with %v: %s", err, third.Stderr)
	}
	if v, body := s.get(t, "runs/third"); v.State != "lost" || v.Reason != "it has no result: its controller could not write one" || v.Total.Operations == 0 {
		t.Errorf("the third run is %s", body)
	}
	f.say("audit", "verify", "--file", journal)
}
