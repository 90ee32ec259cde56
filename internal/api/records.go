package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func (s *Service) recordOperations() []operation {
	const tag = "records"
	return []operation{
		{id: "list-machines", method: get, path: "/api/machines", role: Viewer, tag: tag,
			summary: "List the state machines", detail: "Lists the state machines: their states, events and legal moves.", add: does(s, s.listMachines)},
		{id: "get-machine", method: get, path: "/api/machines/{name}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a state machine", detail: "Reads a state machine, also as the text of a diagram.", add: does(s, s.getMachine)},
		{id: "list-stuck", method: get, path: "/api/stuck", role: Viewer, tag: tag,
			summary: "List the jobs that do not move", detail: "Lists unfinished jobs in which nothing has moved for some time, newest first, each with its main reason, also those that rightly wait. With attention only those that ought to move, as list-jobs has them with stuck; of 1,000 jobs that do not move.", add: does(s, s.listStuck)},
		{id: "verify-audit", method: get, path: "/api/audit/verify", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Verify the audit trail of a job", detail: "Checks the trails of a job and its steps: that no row was edited, removed, reordered or cut off. A broken trail is a verdict and no error.", add: does(s, s.verifyAudit)},
		{id: "start-verification", method: post, path: "/api/audit/verify-all", role: Admin, everywhere: true, repeat: settles, good: []int{http.StatusAccepted}, tag: tag,
			summary: "Begin to verify all audit trails", detail: "Begins to check the trails of all workspaces, beside this request, and returns how it stands. A server does this once at a time: while it runs, another request returns the same examination. It ends with the server.", add: does(s, s.startVerification)},
		{id: "get-verification", method: get, path: "/api/audit/verify-all", role: Admin, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Say how the verification of all audit trails stands", detail: "Returns the examination that this server has begun last: how many entries it has checked, and its verdict once it has ended. The server keeps it in memory until it ends.", add: does(s, s.getVerification)},
		{id: "export-trails", method: get, path: "/api/audit/export", role: Admin, everywhere: true, errors: []Slug{SlugRateLimited}, tag: tag,
			summary: "Export all audit trails", detail: "Writes each row of the trails of all workspaces, as \"pawl audit export\" does.", add: streams[struct{}, exported](s, s.exportTrails)},
		{id: "export-job-trail", method: get, path: "/api/jobs/{id}/trail", role: Viewer, errors: []Slug{SlugNotFound, SlugRateLimited}, tag: tag,
			summary: "Export the audit trail of a job", detail: "Writes each row of the trails of a job and its steps, as \"pawl audit export\" does.", add: streams[struct{ JobPath }, exported](s, s.exportJobTrail)},
		{id: "write-checkpoint", method: get, path: "/api/audit/checkpoint", role: Admin, everywhere: true, errors: []Slug{SlugRateLimited}, tag: tag,
			summary: "Write the ends of all audit trails", detail: "Writes a header, then the end of each trail, as \"pawl audit checkpoint\" does.", add: streams[struct{}, json.RawMessage](s, s.writeCheckpoint)},
		{id: "prune", method: post, path: "/api/retention/prune", role: Admin, everywhere: true, repeat: settles, tag: tag,
			summary: "Remove what ended long ago", detail: "Removes jobs, workers and schedules that ended before older_than, with their trails, for 5 seconds at most. more: ask again.", add: does(s, s.prune)},
		{id: "diagnose", method: get, path: "/api/doctor", role: Admin, everywhere: true, tag: tag,
			summary: "Examine the database", detail: "Examines the database and the work in it, as \"pawl doctor\" does, but for the integrity of a SQLite file. One examination at a time; another is 503.", add: does(s, s.diagnose)},
		{id: "list-prospects", method: get, path: "/api/retention/prospects", role: Admin, everywhere: true, tag: tag,
			summary: "Say what retention would remove", detail: "Counts what a retention of older_than would remove, and what it would keep, and why.", add: does(s, s.listProspects)},
	}
}

// A diagram is a state machine as text.
type diagram struct {
	Machine json.RawMessage `json:"machine" doc:"Its states, events and moves."`
	Text    string          `json:"text,omitempty" doc:"It in the form that as names."`
}

func (s *Service) listMachines(context.Context, *struct{}) (*body[page[json.RawMessage]], error) {
	var all []json.RawMessage
	for _, m := range lifecycle.All() {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return pageOf(all, ""), nil
}

func (s *Service) getMachine(_ context.Context, in *struct {
	NamePath
	As string `query:"as" enum:"mermaid,dot,markdown,matrix" doc:"The form of text."`
}) (*body[diagram], error) {
	m := lifecycle.ByName(in.Name)
	if m == nil {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no machine %q", in.Name), Hint: "list them with: GET /api/machines"}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	text := map[string]func(*machine.Machine) string{"mermaid": (*machine.Machine).Mermaid, "dot": (*machine.Machine).DOT,
		"markdown": (*machine.Machine).Markdown, "matrix": (*machine.Machine).Matrix}
	out := diagram{Machine: b}
	if in.As != "" {
		out.Text = text[in.As](m)
	}
	return &body[diagram]{out}, nil
}

func (s *Service) listStuck(ctx context.Context, in *struct {
	OfWorkspace
	Status    []string `query:"status" enum:"SUBMITTED,PENDING,RUNNING" doc:"Only in these states, separated by commas."`
	Workflow  string   `query:"workflow" maxLength:"128" doc:"Only of this workflow."`
	For       string   `query:"for" default:"10m" maxLength:"32" doc:"That have not moved for this long: a duration."`
	Limit     int      `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"How many, at most."`
	Metadata  []string `query:"metadata,explode" maxItems:"8" doc:"KEY=VALUE: only those whose metadata has this member, as in list-jobs."`
	Attention bool     `query:"attention" doc:"Only those that ought to move: no step runs, and they wait for no person, time, signal, child job or slot."`
}) (*body[page[pawl.StuckJob]], error) {
	still, err := time.ParseDuration(in.For)
	if err != nil || still < 0 {
		return nil, pawl.Errorf(pawl.Invalid, "for %q: want a duration, such as 10m", in.For)
	}
	q := pawl.JobQuery{Workspace: in.Workspace, Workflow: in.Workflow, Limit: in.Limit}
	for _, state := range in.Status {
		q.Statuses = append(q.Statuses, machine.State(state))
	}
	if q.Metadata, err = membersOf(in.Metadata); err != nil {
		return nil, err
	}
	if in.Attention {
		q.Stuck = max(still, time.Microsecond)
	}
	jobs, err := s.Engine.Stuck(ctx, q, still)
	if err != nil {
		return nil, err
	}
	return pageOf(jobs, ""), nil
}

// A prospect says what retention would do to the entities of a kind.
type prospect struct {
	Kind   string `json:"kind"`
	Goes   int64  `json:"goes" doc:"Ended before the time, and would be removed."`
	Open   int64  `json:"open" doc:"Created before the time, and not ended."`
	Needed int64  `json:"needed" doc:"Ended before the time, and needed by what has not ended."`
	Beside int64  `json:"beside" doc:"Could be removed if others of the same day could."`
}

func (s *Service) listProspects(ctx context.Context, in *struct {
	OlderThan string `query:"older_than" required:"true" maxLength:"32" doc:"The age: a duration of at least 1h." example:"720h"`
}) (*body[page[prospect]], error) {
	age, err := ageOf(in.OlderThan)
	if err != nil {
		return nil, err
	}
	all, err := s.Engine.Prospects(ctx, age)
	if err != nil {
		return nil, err
	}
	out := make([]prospect, len(all))
	for i, p := range all {
		out[i] = prospect(p)
	}
	return pageOf(out, ""), nil
}

func (s *Service) verifyAudit(ctx context.Context, in *struct {
	Job string `query:"job_id" required:"true" maxLength:"64" doc:"The id of a job." example:"j_019ac1f0a3c47d5e8f00112233445566"`
}) (*body[pawl.Verdict], error) {
	id, err := parseID(pawl.JobPrefix, in.Job, "job")
	if err != nil {
		return nil, err
	}
	v, err := s.Engine.VerifyTrail(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	return &body[pawl.Verdict]{*v}, nil
}

func (s *Service) diagnose(ctx context.Context, _ *struct{}) (*body[page[health.Finding]], error) {
	found, err := s.examiner.run(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(found, ""), nil
}
