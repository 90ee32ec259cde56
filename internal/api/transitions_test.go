package api_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestForbiddenTransitions: for every state of a job and of a worker that a command can
// meet, and every command, what the table does not have is a 409 that carries the state,
// the event and the legal events (J1, J2, J3).
func TestForbiddenTransitions(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	stop := d.work()
	defer func() { stop() }()
	verbs := []string{"cancel", "pause", "resume"}

	completed := d.submit("name: quick\nsteps: [{id: work, handler: work}]\n", nil)
	failed := d.submit("name: bad\nsteps: [{id: work, handler: work, with: {fail: \"no\"}, retry: {max_attempts: 1}}]\n", nil)
	canceled := d.submit(order, nil)
	d.step(canceled, "ship", "in_progress")
	d.want(200, "POST", "/api/jobs/"+canceled+"/cancel", "")
	for id, state := range map[string]machine.State{completed: lifecycle.JobCompleted, failed: lifecycle.JobFailed, canceled: lifecycle.JobCanceled} {
		if got := d.want(200, "GET", "/api/jobs/"+id+"?wait=ended", "").field(t, "status"); got != string(state) {
			t.Fatalf("the job is %v, want %s", got, state)
		}
		for _, verb := range verbs {
			d.forbidden("/api/jobs/"+id+"/"+verb, id, lifecycle.Job, state, verb)
		}
	}

	clerk := d.want(200, "GET", "/api/workers", "").field(t, "items.0.id").(string)
	worker := func(verb string) string { return "/api/supervisor/workers/" + clerk + "/" + verb }
	state := func() machine.State {
		return machine.State(d.want(200, "GET", "/api/workers/"+clerk, "").field(t, "status").(string))
	}
	for _, verb := range []string{"pause", "resume"} {
		if _, err := lifecycle.Worker.Next(state(), machine.Event(verb)); err != nil {
			d.forbidden(worker(verb), clerk, lifecycle.Worker, state(), verb)
		}
	}
	stop()
	stop = func() {}
	if state() != lifecycle.WorkerCompleted {
		t.Fatalf("the worker is %s, want %s", state(), lifecycle.WorkerCompleted)
	}
	for _, verb := range []string{"pause", "resume"} {
		d.forbidden(worker(verb), clerk, lifecycle.Worker, lifecycle.WorkerCompleted, verb)
	}
	// 001 lets terminate end a worker in any state but TERMINATED.
	d.want(200, "POST", worker("terminate"), `{"reason":"for good"}`)
	for _, verb := range []string{"pause", "resume", "terminate"} {
		d.forbidden(worker(verb), clerk, lifecycle.Worker, lifecycle.WorkerTerminated, verb)
	}
}

// forbidden requires that a command is refused as the table of a machine says.
func (d *drive) forbidden(path, id string, m *machine.Machine, from machine.State, event string) {
	d.t.Helper()
	a := d.want(409, "POST", path, `{"reason":"try"}`)
	want := map[string]any{"code": "INVALID_STATE_TRANSITION", "entity": id, "from": string(from), "event": event}
	for field, value := range want {
		if got := a.field(d.t, field); got != value {
			d.t.Errorf("%s in %s: %s is %v, want %v", event, from, field, got, value)
		}
	}
	var allowed []string
	for _, e := range m.Allowed(from) {
		allowed = append(allowed, string(e))
	}
	var got []string
	if list, is := a.field(d.t, "allowed").([]any); is {
		for _, e := range list {
			got = append(got, fmt.Sprint(e))
		}
	}
	if !slices.Equal(got, allowed) {
		d.t.Errorf("%s in %s: allowed is %v, want %v", event, from, got, allowed)
	}
}

// TestRivalVerbs: of pause, resume and terminate at the same time, and of pause, resume and cancel of a
// job, each request that is accepted is one move of the trail, each move is one of the table, and what
// ends the entity does so once (J1, J2, J3).
func TestRivalVerbs(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			where := filepath.Join(t.TempDir(), "pawl.db")
			if kind == "postgres" {
				where = pgtest.URL(t)
			}
			s := newSiteOn(t, where)
			s.want(201, "POST", "/api/workflows", text(map[string]any{"source": "name: held\nsteps: [{id: a, handler: nobody}]\n"}))
			for range 10 {
				id := s.register(`{"handlers":["far"]}`)
				s.want(200, "POST", s.of(id, "start"), "")
				worker := id.Public(pawl.WorkerPrefix)
				s.rivals(lifecycle.Worker, "/api/workers/"+worker, "/api/supervisor/workers/"+worker, lifecycle.WorkerTerminate)
				job := "/api/jobs/" + s.want(201, "POST", "/api/jobs", `{"workflow":"held"}`).field(t, "id").(string)
				s.rivals(lifecycle.Job, job, job, lifecycle.JobCancel)
			}
		})
	}
}

// rivals sends pause, resume and the verb that ends an entity, several at a time, and compares the
// responses with the trail.
func (s *site) rivals(m *machine.Machine, at, verbs string, end machine.Event) {
	s.t.Helper()
	before := len(s.moves(at))
	var accepted atomic.Int64
	var all sync.WaitGroup
	for i := range 12 {
		verb := []machine.Event{"pause", "resume", "pause", "resume", "pause", end}[i%6]
		all.Go(func() {
			switch a := s.do("POST", verbs+"/"+string(verb), `{"reason":"a race"}`); a.status {
			case 200:
				accepted.Add(1)
			case 409:
			default:
				s.t.Errorf("%s: %d %s", verb, a.status, a.body)
			}
		})
	}
	all.Wait()
	moves := s.moves(at)
	if got := len(moves) - before; int64(got) != accepted.Load() {
		s.t.Errorf("%s: %d requests were accepted, and the trail has %d moves of them", at, accepted.Load(), got)
	}
	ends, state := 0, machine.State("")
	for i, move := range moves {
		from, _ := move["from"].(string)
		to, event := machine.State(move["to"].(string)), machine.Event(move["event"].(string))
		if want, err := m.Next(machine.State(from), event); i > 0 && (err != nil || want != to) || machine.State(from) != state || move["sequence"].(float64) != float64(i+1) {
			s.t.Errorf("%s: move %d is %v, after %s: the table has %s, %v", at, i, move, state, want, err)
		}
		if state = to; event == end {
			ends++
		}
	}
	if ends != 1 || !m.Ended(state) {
		s.t.Errorf("%s is %s, and was ended %d times", at, state, ends)
	}
}

// moves returns the moves of an entity itself, oldest first.
func (s *site) moves(at string) (moves []map[string]any) {
	s.t.Helper()
	id := at[strings.LastIndexByte(at, '/')+1:]
	for _, item := range s.want(200, "GET", at+"/history?limit=100", "").field(s.t, "items").([]any) {
		if move := item.(map[string]any); move["entity"] == nil || move["entity"] == id { // not of a step of the job
			moves = append(moves, move)
		}
	}
	return moves
}

// TestWorkerTable: over HTTP a worker has each row of its table, and nothing else: from every state every
// verb is either that row, or a 409 that leaves the worker as it is (J1, J3). An idle worker that has
// drained ends, too: as TERMINATED, since it has completed nothing.
func TestWorkerTable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	verbs := map[machine.Event]string{
		lifecycle.WorkerStartTask: "/api/workers/%s/start", lifecycle.WorkerCompleteTasks: "/api/workers/%s/complete", lifecycle.WorkerErrorUnrecoverable: "/api/workers/%s/fail",
		lifecycle.WorkerPause: "/api/supervisor/workers/%s/pause", lifecycle.WorkerResume: "/api/supervisor/workers/%s/resume", lifecycle.WorkerTerminate: "/api/supervisor/workers/%s/terminate",
	}
	paths := map[machine.State][]machine.Event{
		lifecycle.WorkerIdle: {}, lifecycle.WorkerRunning: {lifecycle.WorkerStartTask}, lifecycle.WorkerPaused: {lifecycle.WorkerStartTask, lifecycle.WorkerPause},
		lifecycle.WorkerCompleted: {lifecycle.WorkerStartTask, lifecycle.WorkerCompleteTasks}, lifecycle.WorkerFailed: {lifecycle.WorkerStartTask, lifecycle.WorkerErrorUnrecoverable},
		lifecycle.WorkerTerminated: {lifecycle.WorkerTerminate},
	}
	for _, from := range lifecycle.Worker.States {
		for event, path := range verbs {
			id := s.register(`{"workspace_id":"ws_test"}`).Public(pawl.WorkerPrefix)
			status := func() machine.State {
				return machine.State(s.want(200, "GET", "/api/workers/"+id, "").field(t, "status").(string))
			}
			for _, before := range paths[from] {
				s.want(200, "POST", fmt.Sprintf(verbs[before], id), `{"reason":"on its way"}`)
			}
			if now := status(); now != from {
				t.Fatalf("the worker is %s, want %s", now, from)
			}
			to, err := lifecycle.Worker.Next(from, event)
			if from == lifecycle.WorkerIdle && event == lifecycle.WorkerCompleteTasks {
				to, err = lifecycle.WorkerTerminated, nil
			}
			if err != nil {
				s.want(409, "POST", fmt.Sprintf(path, id), `{"reason":"try"}`)
				to = from
			} else if got := s.want(200, "POST", fmt.Sprintf(path, id), `{"reason":"try"}`).field(t, "status"); got != string(to) {
				t.Errorf("%s in %s: the response has %v, want %s", event, from, got, to)
			}
			if now := status(); now != to {
				t.Errorf("%s in %s: the worker is %s, want %s", event, from, now, to)
			}
		}
	}

	// The same request again has the same response.
	id := s.register(`{"workspace_id":"ws_test"}`)
	s.want(200, "POST", s.of(id, "start"), "")
	pause := "/api/supervisor/workers/" + id.Public(pawl.WorkerPrefix) + "/pause"
	first := s.want(200, "POST", pause, `{"reason":"Test pause","request_id":"req_abc123"}`)
	second := s.want(200, "POST", pause, `{"reason":"Test pause","request_id":"req_abc123"}`)
	if first.field(t, "status") != "PAUSED" || string(first.body) != string(second.body) {
		t.Errorf("paused: %s, and again: %s", first.body, second.body)
	}
}
