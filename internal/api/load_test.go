package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/results"
	"github.com/pawl-dev/pawl/internal/load/results/resultstest"
)

// A loadSite is a folder of load runs: monday and tuesday have ended, and other, which is of another load;
// now is on; and broken cannot be read.
type loadSite struct {
	dir    string
	folder *results.Folder
	now    *journal.Journal
	hangs  bool // an agent more, which does not reply
}

func openLoads(t testing.TB) *loadSite {
	t.Helper()
	l := &loadSite{dir: t.TempDir()}
	resultstest.Write(t, l.dir, "monday", 1, 6, resultstest.File)
	resultstest.Write(t, l.dir, "tuesday", 2, 6, resultstest.File)
	resultstest.Write(t, l.dir, "other", 3, 2, "name: other\n"+strings.SplitN(resultstest.File, "\n", 2)[1]+"jobs: 4\n")
	broken := filepath.Join(l.dir, "broken")
	if err := os.Mkdir(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "summary.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.now = resultstest.Journal(t, l.dir, "now", 4, resultstest.File)
	t.Cleanup(func() { _ = l.now.Close() })
	l.now.Changed(resultstest.View(4, controller.Running))
	l.now.Interval(resultstest.Second(0))
	resultstest.Record(t, l.now, l.records(), 1, 0, 1)
	var err error
	if l.folder, err = results.Open(l.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.folder.Close() })
	for r, err := l.folder.Run("now"); r.Seconds < 1; r, err = l.folder.Run("now") { // its lines are written by and by
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// records is the file of the intervals of an agent of the run that is on.
func (l *loadSite) records() string { return filepath.Join(l.dir, "records") }

// config adds the runs to what a service is made of, and agents, of which one replies.
func (l *loadSite) config(c *api.Config) {
	if l == nil {
		return
	}
	c.Loads = l.folder
	c.LoadAgents = []api.LoadAgent{
		{Address: "host1:7296", Inspect: func(context.Context) (*loadpb.GetAgentResponse, error) {
			return &loadpb.GetAgentResponse{Agent: &loadpb.AgentInfo{Id: "node-1", Build: "pawl 1", Cpus: 2, Engines: []string{"threads"}, Roots: []*loadpb.Root{{Path: "/mnt"}}},
				Run: &loadpb.RunView{RunId: "r1", State: "RUNNING", Transitions: []*loadpb.Transition{{To: "RUNNING", AtNs: 1e18}}}, KeptRunIds: []string{"r0"}}, nil
		}},
		{Address: "dead:7296", Inspect: func(context.Context) (*loadpb.GetAgentResponse, error) {
			return nil, pawl.Errorf(pawl.Unavailable, "agent dead:7296 cannot be asked: connection refused")
		}},
	}
	if l.hangs {
		c.AgentTime = 20 * time.Millisecond
		c.LoadAgents = append(c.LoadAgents, api.LoadAgent{Address: "mute:7296", Inspect: func(ctx context.Context) (*loadpb.GetAgentResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	}
}

// driveLoads drives the operations of loads: what there is, what cannot be, and the end of a run (L7).
func driveLoads(t *testing.T, d *drive) {
	const runs, monday, now = "/api/load/runs", "/api/load/runs/monday", "/api/load/runs/now"
	var names []any
	for next := ""; ; {
		a := d.want(200, "GET", runs+"?limit=2&cursor="+next, "")
		for _, i := range a.field(t, "items").([]any) {
			names = append(names, i.(map[string]any)["name"])
		}
		var p struct{ Next string }
		if err := json.Unmarshal(a.body, &p); err != nil {
			t.Fatal(err)
		}
		if next = p.Next; next == "" {
			break
		}
	}
	if diff := cmp.Diff([]any{"broken", "now", "other", "tuesday", "monday"}, names); diff != "" {
		t.Error(diff)
	}
	if a := d.want(200, "GET", runs+"?state=running,damaged&load=small", ""); a.field(t, "items.0.name") != "now" || a.field(t, "items.0.agent_count") != 2.0 {
		t.Errorf("%s", a.body)
	}
	if a := d.want(200, "GET", runs+"?q=0003", ""); len(a.field(t, "items").([]any)) != 1 || a.field(t, "items.0.name") != "other" {
		t.Errorf("%s", a.body)
	}
	d.want(422, "GET", runs+"?state=gone", "")

	a := d.want(200, "GET", monday, "")
	for field, want := range map[string]any{"state": "completed", "violations": 1.0, "thresholds.0.metric": "p99", "thresholds.0.limit": 1e6, "agents.1.folder": "node-2", "agents.1.skew_last_ns": 30_000.0,
		"agents.1.clock_bound_ns": 40_000.0, "summary.schema": 1.0, "config": resultstest.File, "begun_at": "2026-11-20T12:01:00.000000Z"} {
		if got := a.field(t, field); got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	if v, _ := a.field(t, "thresholds.0.violation").(string); !strings.Contains(v, "want at most 1ms") || a.field(t, "thresholds.1.violation") != nil {
		t.Errorf("%s", a.body)
	}
	d.want(200, "GET", runs+"/broken", "")
	d.want(404, "GET", runs+"/none", "")
	d.want(404, "GET", runs+"/..%2Fmonday", "")
	d.want(200, "GET", now, "")

	d.want(200, "GET", monday+"/intervals?limit=2&from=1&to=5", "")
	d.want(200, "GET", monday+"/intervals?agent=node-1", "")
	d.want(200, "GET", now+"/intervals?operation=read", "")
	if a := d.want(200, "GET", now+"/intervals?agent=node-2", ""); a.field(t, "items.0.figures.operations") != 1.0 {
		t.Errorf("%s", a.body)
	}
	for _, run := range []string{monday, now} {
		if a := d.want(422, "GET", run+"/intervals?agent=none", ""); !strings.Contains(a.field(t, "detail").(string), "want one of node-1, node-2") {
			t.Errorf("%s", a.body)
		}
	}
	d.want(409, "GET", runs+"/broken/intervals", "")
	d.want(422, "GET", monday+"/intervals?agent=node-1&operation=read", "")
	d.want(200, "GET", monday+"/history?limit=3", "")
	d.want(404, "GET", runs+"/none/history", "")

	page := d.want(200, "GET", monday+"/report?download=true", "")
	if !bytes.Contains(page.body, []byte("<svg")) || !strings.HasPrefix(page.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the report is %.100q, with %q", page.body, page.header.Get("Content-Security-Policy"))
	}
	d.want(409, "GET", now+"/report", "")
	d.want(422, "GET", runs+"/broken/report", "")
	compare := d.want(200, "GET", "/api/load/compare?a=monday&b=tuesday", "")
	if v := compare.field(t, "operations.0.measures.0.verdict"); v != "no difference" {
		t.Errorf("the verdict is %v", v)
	}
	if a := d.want(422, "GET", "/api/load/compare?a=monday&b=other", ""); !strings.Contains(a.field(t, "detail").(string), "jobs: 1 and 4") {
		t.Errorf("%s", a.body)
	}
	d.want(200, "GET", "/api/load/compare?a=monday&b=other&force=true", "")
	d.want(409, "GET", "/api/load/compare?a=monday&b=now", "")
	d.want(404, "GET", "/api/load/compare?a=monday&b=none", "")

	if a := d.want(200, "GET", monday+"/follow", ""); !bytes.HasPrefix(a.body, []byte("event: end\n")) {
		t.Errorf("a run that has ended: %s", a.body)
	}
	agents := d.want(200, "GET", "/api/load/agents", "")
	for field, want := range map[string]any{"items.0.reachable": true, "items.0.current_run.run_id": "r1", "items.0.version": "pawl 1", "items.1.reachable": false,
		"items.1.error": "agent dead:7296 cannot be asked: connection refused"} {
		if got := agents.field(t, field); got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}

	d.want(409, "POST", monday+"/abort", "")
	d.want(404, "POST", runs+"/none/abort", "")
	ended := d.want(200, "POST", now+"/abort", `{"reason":"too slow"}`, "Pawl-Actor", "ada")
	if by := ended.field(t, "abort_requested.actor"); by != "ada" {
		t.Errorf("%v has asked for the end", by)
	}
	d.want(200, "POST", now+"/abort", `{"reason":"again"}`)
	select {
	case why := <-d.loads.now.Abort():
		if why != "by ada: too slow" {
			t.Errorf("the run ends %q", why)
		}
	case <-time.After(10 * time.Second):
		t.Error("the request does not reach the controller")
	}
}

// A loadEvent is an event of the stream of a run.
type loadEvent struct{ name, id, data string }

// A loadStream is the stream of a run, or of the log of a step.
type loadStream struct {
	t      *testing.T
	lines  *bufio.Scanner
	status int
}

func (s *site) follow(t *testing.T, run, last string) *loadStream {
	t.Helper()
	run, query, _ := strings.Cut(run, "?")
	return s.followed(t, "/api/load/runs/"+run+"/follow?"+query, last)
}

// followed opens a stream of events.
func (s *site) followed(t *testing.T, path, last string) *loadStream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &loadStream{t, lines, resp.StatusCode}
}

// next returns the next event, and false at the end of the stream.
func (s *loadStream) next() (e loadEvent, is bool) {
	s.t.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e, true
			}
		}
	}
	return e, false
}

// rest returns the names of the events up to the end, and the last one.
func (s *loadStream) rest() (names []string, last loadEvent) {
	s.t.Helper()
	for e, is := s.next(); is; e, is = s.next() {
		names, last = append(names, e.name), e
	}
	return names, last
}

// TestFollowLoad: a run is followed from what it is now on to its end, by several at once, of which one
// that reads nothing holds up nobody; who connects again misses nothing; one that has ended has its end
// only (L7).
func TestFollowLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.loads = openLoads(t)
	s.open()
	first := s.follow(t, "now", "")
	s.follow(t, "now", "") // it is not read
	var begun []string
	var fifth loadEvent
	for range 4 {
		fifth, _ = first.next()
		begun = append(begun, fifth.name)
	}
	if diff := cmp.Diff([]string{"run", "agent", "agent", "interval"}, begun); diff != "" {
		t.Error(diff)
	}
	const more = 3000 // more than a client's buffers take
	go func() {
		for n := range more {
			s.loads.now.Interval(resultstest.Second(n + 1)) // some are left out, which a line says
		}
		run := &report.Run{ID: resultstest.ID(4), Outcome: report.Failed, Reason: "no space", Ended: resultstest.Start}
		s.loads.now.Kept(run, "")
	}()
	names, end := first.rest()
	again, endAgain := s.follow(t, "now", fifth.id).rest()
	if diff := cmp.Diff(names, again); diff != "" || end != endAgain {
		t.Errorf("who connects again sees something else: %s\n%+v\n%+v", diff, end, endAgain)
	}
	var line journal.EndLine
	if err := json.Unmarshal([]byte(end.data), &line); err != nil || end.name != "end" || line.Outcome != "failed" || line.Reason != "no space" {
		t.Errorf("the end is %+v, %v", end, err)
	}
	if len(names) < 100 {
		t.Errorf("%d events", len(names))
	}
	if names, last := s.follow(t, "monday", "").rest(); len(names) != 1 || !strings.Contains(last.data, `"outcome":"completed"`) || last.id != "" {
		t.Errorf("a run that has ended: %v, %+v", names, last)
	}
	for run, status := range map[string]int{"none": 404, "broken": 409} {
		if got := s.follow(t, run, "").status; got != status {
			t.Errorf("%s: %d, want %d", run, got, status)
		}
	}
	for _, id := range []string{"x", resultstest.ID(4) + ".1", resultstest.ID(1) + ".14", resultstest.ID(4) + ".-1"} {
		if got := s.follow(t, "now", id).status; got != 422 {
			t.Errorf("Last-Event-ID %s: %d, want 422", id, got)
		}
	}
}

// TestFollowLargeLine: a line that fills what is written at once reaches who follows the run at once (L7).
func TestFollowLargeLine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.loads = openLoads(t)
	s.open()
	stream := s.follow(t, "now", "")
	for range 4 {
		stream.next()
	}
	second := resultstest.Second(1)
	for n := range 300 {
		for key, done := range resultstest.Table() {
			key.Operation = fmt.Sprintf("read-%d", n)
			second.Operations[key] = done
		}
	}
	begun := time.Now()
	s.loads.now.Interval(second)
	e, _ := stream.next()
	if took := time.Since(begun); e.name != "interval" || len(e.data) < 16<<10 || took > 10*time.Second {
		t.Errorf("%s of %d bytes after %v; want an interval of 16 KiB or more at once", e.name, len(e.data), took)
	}
}

// TestFollowAgent: the stream has the intervals of one agent in place of those of all, the last ones before the end;
// who connects again misses nothing (L7).
func TestFollowAgent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.loads = openLoads(t)
	s.open()
	resultstest.Record(t, s.loads.now, s.loads.records(), 1, 1, 3)
	first := s.follow(t, "now?agent=node-2", "")
	var begun []string
	var at loadEvent
	for range 4 {
		at, _ = first.next()
		begun = append(begun, at.name)
	}
	if diff := cmp.Diff([]string{"run", "agent", "agent", "interval"}, begun); diff != "" {
		t.Error(diff)
	}
	var line journal.IntervalLine
	if err := json.Unmarshal([]byte(at.data), &line); err != nil || line.Start != 2 || line.Agents != 1 || *line.Agent != 1 || line.Total.Operations != 1 || !line.At.Equal(resultstest.Start.Add(4*time.Minute+3*time.Second)) {
		t.Errorf("the last interval is %s, %v", at.data, err)
	}
	resultstest.Record(t, s.loads.now, s.loads.records(), 1, 3, 5)
	s.loads.now.Interval(resultstest.Second(1)) // of all
	s.loads.now.Kept(&report.Run{ID: resultstest.ID(4), Outcome: report.Failed}, "")
	names, _ := first.rest()
	again, _ := s.follow(t, "now?agent=node-2", at.id).rest()
	if diff := cmp.Diff([]string{"interval", "interval", "end"}, names); diff != "" || !cmp.Equal(names, again) {
		t.Errorf("%s, and again %v", diff, again)
	}
	for path, id := range map[string]string{
		"now": at.id, "now?agent=none": at.id, "now?agent=node-1": at.id, "now?agent=node-2": strings.TrimRight(at.id, "0123456789") + "99999", "monday?agent=none": "",
	} {
		if got := s.follow(t, path, id).status; got != 422 {
			t.Errorf("%s after %s: %d, want 422", path, id, got)
		}
	}
}

// TestEndsOfAgents: a stream of an agent ends with the end of the run, and with nothing after it, if the journal is gone
// before the agent has done anything, and if the run has ended before the stream began (L7).
func TestEndsOfAgents(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.loads = openLoads(t)
	s.open()
	idle := s.follow(t, "now?agent=node-1", "")
	if e, _ := idle.next(); e.name != "run" {
		t.Errorf("it begins with %+v", e)
	}
	if err := s.loads.now.Close(); err != nil {
		t.Fatal(err)
	}
	s.loads.now = resultstest.Journal(t, s.loads.dir, "next", 5, resultstest.File) // which is closed at the end
	if names, _ := idle.rest(); !cmp.Equal(names, []string{"agent", "agent", "end"}) {
		t.Errorf("of an agent without intervals: %v", names)
	}
	s.loads.now.Changed(resultstest.View(5, controller.Running))
	records := filepath.Join(s.loads.dir, "records-of-next")
	resultstest.Record(t, s.loads.now, records, 1, 0, 3)
	s.loads.now.Kept(&report.Run{ID: resultstest.ID(5), Outcome: report.Failed}, "")
	for n := 0; n < 4; { // its lines are written by and by
		live, err := os.ReadFile(filepath.Join(s.loads.dir, journal.NameOf("next"), "live.ndjson"))
		if n = bytes.Count(live, []byte("\n")); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := s.follow(t, "next?agent=node-2", "").rest(); !cmp.Equal(names, []string{"run", "agent", "agent", "interval", "end"}) {
		t.Errorf("of a run that has ended before: %v", names)
	}
}

// TestCursorOfEnded: the places of a run that is on are none of its result, and a cursor with one is refused
// once the run has ended (L7).
func TestCursorOfEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.loads = openLoads(t)
	s.open()
	s.loads.now.Interval(resultstest.Second(1))
	for r, err := s.loads.folder.Run("now"); r.Seconds < 2; r, err = s.loads.folder.Run("now") { // its lines are written by and by
		if err != nil {
			t.Fatal(err)
		}
	}
	const path = "/api/load/runs/now/intervals?limit=1"
	next, _ := s.want(200, "GET", path, "").field(t, "next").(string)
	s.want(200, "GET", path+"&cursor="+next, "")
	if err := s.loads.now.Close(); err != nil {
		t.Fatal(err)
	}
	s.loads.now = resultstest.Journal(t, s.loads.dir, "other-run", 9, resultstest.File) // which is closed at the end
	resultstest.Write(t, s.loads.dir, "now", 4, 6, resultstest.File)
	if a := s.want(422, "GET", path+"&cursor="+next, ""); !strings.Contains(a.field(t, "detail").(string), "has ended since that page") {
		t.Errorf("%s", a.body)
	}
}

// TestAgentsThatHang: an agent that does not reply holds up the list for its own time only, and the others
// are shown (L11).
func TestAgentsThatHang(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.loads = openLoads(t)
	s.loads.hangs = true
	s.open()
	a := s.want(200, "GET", "/api/load/agents", "")
	if a.field(t, "items.0.reachable") != true || a.field(t, "items.2.reachable") != false || a.field(t, "items.2.error") != "context deadline exceeded" {
		t.Errorf("%s", a.body)
	}
}

// TestNoLoads: a server without load runs says so, and how to start it with some.
func TestNoLoads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"runs", "runs/a", "agents", "compare?a=a&b=b"} {
		if a := s.want(404, "GET", "/api/load/"+path, ""); a.field(t, "hint") != "start it with --load DIR, a folder of results" {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}
