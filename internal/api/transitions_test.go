package api_test

import (
	"fmt"
	"slices"
	"testing"

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
