package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl"
)

// A sse is a server-sent event.
type sse struct{ event, id, data, retry string }

// A listener reads a stream of events.
type listener struct {
	t     testing.TB
	lines *bufio.Scanner
	body  io.Closer
}

// listen opens a stream.
func (s *site) listen(query string, headers ...string) *listener {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+"/api/events"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		if got := resp.Header.Get(name); resp.StatusCode != 200 || got != want {
			problem, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
			s.t.Fatalf("%s: status %d, %s %q: %s", query, resp.StatusCode, name, got, problem)
		}
	}
	return &listener{s.t, bufio.NewScanner(resp.Body), resp.Body}
}

// next returns the next event, or false at the end of the stream.
func (l *listener) next() (e sse, more bool) {
	for l.lines.Scan() {
		if l.lines.Text() == "" {
			return e, true
		}
		name, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch name {
		case "event":
			e.event = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "retry":
			e.retry = value
		}
	}
	return e, false
}

// until returns the transitions up to one that ends.
func (l *listener) until(ends func(*pawl.Event) bool) (list []pawl.Event, id string) {
	l.t.Helper()
	for over := false; ; {
		e, more := l.next()
		if !more {
			l.t.Fatalf("the stream ends after %d events: %v", len(list), l.lines.Err())
		}
		if e.id != "" {
			id = e.id
		}
		if e.event != "transition" {
			continue
		}
		var v pawl.Event
		if err := json.Unmarshal([]byte(e.data), &v); err != nil {
			l.t.Fatalf("%v in %s", err, e.data)
		}
		list = append(list, v)
		if over = over || ends(&v); over && e.id != "" {
			return list, id
		}
	}
}

// stream drives the operation that streams, up to its first event.
func (d *drive) stream(query string) {
	d.t.Helper()
	l := d.listen(query)
	if e, more := l.next(); !more || e.event != "hello" || e.id == "" {
		d.t.Errorf("the first event is %+v", e)
	}
	_ = l.body.Close()
	o, _ := d.contract.of(d.t, "GET", "/api/events")
	d.driven[o.ID] = map[int]bool{200: true}
}

func moves(list []pawl.Event) (all []string) {
	for _, e := range list {
		from := "-"
		if e.From != nil {
			from = string(*e.From)
		}
		all = append(all, fmt.Sprintf("%s%s %s: %s -> %s", e.Machine, strings.TrimSuffix("["+e.Step+"]", "[]"), e.Event, from, e.To))
	}
	return all
}

func completed(id string) func(*pawl.Event) bool {
	return func(e *pawl.Event) bool { return e.Entity == id && e.To == "COMPLETED" }
}

const one = "name: one\nsteps: [{id: work, handler: work}]\n"

// TestEvents: a stream has the moves of a job as its trail does, selects, and goes on from an id.
func TestEvents(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	defer d.work()()
	all := d.listen("")
	hello, _ := all.next()
	ends := d.listen("?machine=job&event=success,validate")
	ends.next()
	first := d.submit(one, nil)
	list, after := all.until(completed(first))
	job := slices.DeleteFunc(slices.Clone(list), func(e pawl.Event) bool { return e.JobID != first })
	want := []string{"job submit: - -> SUBMITTED", "job validate: SUBMITTED -> PENDING", "step[work] create: - -> pending",
		"job allocate_resources: PENDING -> RUNNING", "step[work] enqueue: pending -> enqueued", "step[work] claim: enqueued -> in_progress",
		"step[work] success: in_progress -> complete", "job success: RUNNING -> COMPLETED"}
	got := moves(job)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the moves of a job are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, e := range job {
		if e.Workspace != "default" || e.Name != "one" || e.At == 0 || e.Actor == "" || e.Sequence == 0 {
			t.Errorf("an event lacks something: %+v", e)
		}
	}
	d.checkEvents(list)
	if list, _ := ends.until(completed(first)); len(list) != 2 {
		t.Errorf("of the ends of jobs alone: %v", moves(list))
	}

	second := d.submit(one, nil)
	for name, l := range map[string]*listener{
		"Last-Event-ID": d.listen("?after=nonsense", "Last-Event-ID", after),
		"after":         d.listen("?after=" + after),
		"from hello":    d.listen("?after=" + hello.id + "&job_id=" + second),
	} {
		list, _ := l.until(completed(second))
		if n := len(slices.DeleteFunc(list, func(e pawl.Event) bool { return e.JobID != second })); n != 8 {
			t.Errorf("%s: %d events of the second job, want 8", name, n)
		}
	}
	if list, _ := d.listen("?job_id=" + first + "&after=" + hello.id).until(completed(first)); len(list) != 8 {
		t.Errorf("of the first job alone: %v", moves(list))
	}
	d.submit("name: other\nsteps: [{id: work, handler: work}]\n", nil)
	elsewhere := d.listen("?workspace_id=elsewhere&after=" + hello.id)
	defer elsewhere.body.Close()
	d.want(201, "POST", "/api/jobs", text(map[string]any{"source": one, "workspace_id": "elsewhere"}))
	if list, _ := elsewhere.until(func(e *pawl.Event) bool { return e.To == "PENDING" }); slices.ContainsFunc(list, func(e pawl.Event) bool { return e.Workspace != "elsewhere" }) {
		t.Errorf("of another workspace: %v", moves(list))
	}
}

// checkEvents holds events against the document.
func (d *drive) checkEvents(list []pawl.Event) {
	d.t.Helper()
	schema, err := d.schemas.Compile("openapi.json#/paths/~1api~1events/get/responses/200/content/text~1event-stream/schema/x-pawl-data")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range list {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text(e)))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			d.t.Errorf("%v\n%s", err, text(e))
		}
	}
}

// TestEventGaps: an unusable place is a gap with an id to go on from, and the stream goes on.
func TestEventGaps(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	defer d.work()()
	for query, reason := range map[string]string{
		"?after=nonsense": "unreadable", "?after=1.0.1": "other", "?after=" + strings.Repeat("1", 5000): "unreadable",
	} {
		l := d.listen(query)
		gap, _ := l.next()
		if gap.event != "gap" || gap.data != `{"reason":"`+reason+`"}` || gap.id == "" {
			t.Errorf("%.40s: %+v, want a gap because it is %s", query, gap, reason)
		}
		job := d.submit(one, nil)
		if list, _ := l.until(completed(job)); len(list) < 8 {
			t.Errorf("after a gap: %v", moves(list))
		}
		_ = l.body.Close()
	}
}

// TestTooManyStreams: one more than may be open is 429, and a place that is left is free.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.maxEvents = 2
	s.open()
	first := s.listen("")
	s.listen("")
	if a := s.want(429, "GET", "/api/events", ""); a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	_ = first.body.Close()
	for {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == 200 {
			return
		}
	}
}

// TestStreamsEnd: when the engine or the server ends, a stream says so.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.listen("")
	l.next()
	s.engine.Feed().Close()
	bye, more := l.next()
	if !more || bye.event != "bye" || bye.retry == "" {
		t.Errorf("at the end of the engine: %+v, want bye with a time", bye)
	}
	if e, more := l.next(); more {
		t.Errorf("after bye: %+v", e)
	}
	s.want(503, "GET", "/api/events", "")
}

// TestStreamsAreCut: a client that does not read is cut off, and takes no place.
func TestStreamsAreCut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	defer s.work()()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(conn, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	hub := s.engine.Feed()
	reader := s.listen("")
	go func() {
		for _, more := reader.next(); more; _, more = reader.next() {
		}
	}()
	for begun := bufio.NewScanner(conn); begun.Scan() && begun.Text() != "event: hello"; { // the last that it reads
	}
	if n := hub.Stats().Streams; n != 2 {
		t.Fatalf("%d streams are open, want 2", n)
	}
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": one}))
	batch := text(map[string]any{"jobs": slices.Repeat([]any{map[string]any{"workflow": "one"}}, 500)})
	for range 4 { // more than the buffers of a connection hold
		s.want(200, "POST", "/api/jobs/batch", batch)
	}
	if n := s.streams(1); n != 1 {
		t.Errorf("%d streams are left, want the one that reads", n)
	}
}

// TestTopics: a stream has what its topics are about, and nothing else (J11).
func TestTopics(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	defer s.work()()
	first := s.want(201, "POST", "/api/jobs", text(map[string]any{"source": holding})).field(t, "id").(string)
	l := s.listen("?topics=approvals,job:" + first)
	d := driveOf(t, s)
	second := d.submit(order, nil)
	s.want(200, "POST", "/api/steps/"+d.step(second, "ship", "in_progress")+"/approve", `{"form":{"note":"ok"}}`)
	s.want(200, "POST", "/api/jobs/"+first+"/cancel", "")
	list, _ := l.until(func(e *pawl.Event) bool { return e.JobID == first && e.Machine == "job" && e.To == "CANCELED" })
	approved := false
	for _, e := range list {
		if e.JobID != first && e.Step != "ship" && e.Step != "paid" {
			t.Errorf("it has %s of %s %s", e.Event, e.Machine, e.Step)
		}
		approved = approved || e.Step == "ship" && e.To == "complete"
	}
	if !approved {
		t.Errorf("the approval is missing: %+v", list)
	}
	s.want(422, "GET", "/api/events?topics=weather", "")
	s.want(404, "GET", "/api/events?topics=job:j_019ac1f0a3c47d5e8f00112233445566", "")
}
