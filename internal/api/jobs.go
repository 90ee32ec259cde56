package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

func (s *Service) jobOperations() []operation {
	const tag = "jobs"
	return []operation{
		{id: "submit-job", method: post, path: "/api/jobs", role: Operator, repeat: replayed, good: []int{201}, errors: []Slug{SlugNotFound, SlugConflict, SlugKeyReused, SlugRequestInProgress}, tag: tag,
			summary: "Submit a job", detail: "Submits a job of a registered workflow (workflow), of a file's text (source) or of its JSON (definition). When the response comes, the job is committed.", add: s.submitsJob()},
		{id: "submit-jobs", method: post, path: "/api/jobs/batch", role: Operator, repeat: replayed, errors: []Slug{SlugNotFound, SlugKeyReused, SlugRequestInProgress}, tag: tag,
			summary: "Submit up to 500 jobs", detail: "Submits jobs, many in one commit. The response has an item for each, at its index: one that is refused does not affect the others. Each job may have a request_id of its own. With that of the request the jobs and the response are one commit; jobs that are too many for it, or that meet a failure of the server, have keys derived from the request's key, and the same request makes what is missing.", add: s.submitsJobs()},
		{id: "list-jobs", method: get, path: "/api/jobs", role: Viewer, tag: tag,
			summary: "List jobs, newest first", detail: "Lists jobs without their steps and history.", add: does(s, s.listJobs)},
		{id: "get-job", method: get, path: "/api/jobs/{id}", role: Viewer, good: []int{200, 304}, errors: []Slug{SlugNotFound, SlugRateLimited}, tag: tag,
			summary: "Read a job", detail: "Reads a job with its steps and the moves of its own state machine. With wait it responds when the job has ended, or has changed, at the latest after 25 seconds. With If-None-Match the response is 304 while nothing has changed. With at or seq it returns the job as it was, rebuilt from its audit trail.", add: does(s, s.getJob)},
		{id: "cancel-job", method: post, path: "/api/jobs/{id}/cancel", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Cancel a job", detail: "Ends a job as CANCELED, once its running steps have stopped, and its descendants.", add: does(s, s.jobVerb((*client.Jobs).Cancel))},
		{id: "pause-job", method: post, path: "/api/jobs/{id}/pause", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Pause a job", detail: "Keeps a job from beginning further steps. Running steps continue, and so do deadlines.", add: does(s, s.jobVerb((*client.Jobs).Pause))},
		{id: "resume-job", method: post, path: "/api/jobs/{id}/resume", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Resume a job", detail: "Ends a pause.", add: does(s, s.jobVerb((*client.Jobs).Resume))},
		{id: "retry-job", method: post, path: "/api/jobs/{id}/retry", role: Operator, repeat: replayed, good: []int{201}, errors: verbErrors, tag: tag,
			summary: "Continue a job that has ended", detail: "Makes a job that continues one that has ended without completing: complete steps are not run again. The receipt is of the new job.", add: does(s, s.retryJob)},
		{id: "move-job", method: post, path: "/api/jobs/{id}/move", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Move a job to another version", detail: "Moves an unfinished job to another version of its workflow. dry_run says what that would mean, and changes nothing.", add: does(s, s.moveJob)},
		{id: "signal-job", method: post, path: "/api/jobs/{id}/signals", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Send a signal to a job", detail: "The step that has waited longest for the name takes the signal, or the next one that waits for it.", add: does(s, s.signalJob)},
		{id: "redact-job", method: post, path: "/api/jobs/{id}/redact", role: Admin, repeat: settles, errors: verbErrors, tag: tag,
			summary: "Withhold the payload of a job", detail: "Erases the inputs, outputs, errors and logs of a job, or of one of its steps. The trail keeps its hashes, and records who did it and why. A reason is required.", add: does(s, s.redactJob)},
		{id: "list-job-history", method: get, path: "/api/jobs/{id}/history", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List every move of a job and its steps", detail: "Lists moves by the time of their commit, oldest first, and facts that came too late.", add: does(s, s.listJobHistory)},
		{id: "explain-job", method: get, path: "/api/jobs/{id}/why", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Say why a job, or a step, does not move", detail: "Says what a job or one of its steps waits for, and what would unblock it.", add: does(s, s.explainJob)},
		{id: "get-job-definition", method: get, path: "/api/jobs/{id}/definition", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read the workflow that a job runs", detail: "Reads the definition in its canonical form, with defaults written out.", add: does(s, s.getJobDefinition)},
		{id: "list-job-logs", method: get, path: "/api/jobs/{id}/logs", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read what steps have printed", detail: "Reads pieces of logs in the order in which they were printed.", add: does(s, s.listJobLogs)},
	}
}

var verbErrors = []Slug{SlugNotFound, SlugInvalidTransition, SlugConflict, SlugKeyReused, SlugRequestInProgress}

// created is the answer to a command that has made a job.
type created struct {
	Status   int
	Location string `header:"Location" doc:"The path of the new job."`
	Replayed string `header:"Idempotency-Replayed" doc:"true: the response is that to an earlier request with the same key."`
	Body     pawl.Receipt
}

func createdJob(r pawl.Receipt, err error) (*created, error) {
	if err != nil {
		return nil, err
	}
	return &created{http.StatusCreated, "/api/jobs/" + r.ID, replayedHeader(r.Replayed), r}, nil
}

func (s *Service) listJobs(ctx context.Context, in *struct {
	OfWorkspace
	Window
	Status        []string  `query:"status" enum:"SUBMITTED,PENDING,RUNNING,COMPLETED,FAILED,CANCELED" doc:"Only in these states, separated by commas."`
	Workflow      string    `query:"workflow" maxLength:"128" doc:"Only of this workflow."`
	Depth         int       `query:"depth" minimum:"-1" maximum:"5" default:"-1" doc:"Only at this depth below a first job: 0 to 5. -1: all."`
	Parent        string    `query:"parent_job_id" maxLength:"64" doc:"Only children of this job."`
	Continues     string    `query:"continues" maxLength:"64" doc:"Only jobs that continue this one."`
	CreatedAfter  time.Time `query:"created_after" doc:"Only created at this time or later."`
	CreatedBefore time.Time `query:"created_before" doc:"Only created before this time."`
	Schedule      string    `query:"schedule" maxLength:"128" doc:"Only those that this schedule made, of the workspace, or of the default one."`
	Text          string    `query:"q" maxLength:"256" doc:"Only those whose workflow or description contains this, in any case of ASCII letters."`
	Metadata      []string  `query:"metadata,explode" maxItems:"8" doc:"KEY=VALUE: only those whose metadata has this member at its top level, as a text or as another value that is written so. Given several times: only those that have all. Those of a job that was redacted are gone."`
	Stuck         string    `query:"stuck" maxLength:"32" doc:"Only unfinished jobs in which nothing has moved for this long, a duration such as 10m, though it should: no step runs, and they wait for no person, time, signal, child job or slot. A page looks at 200 jobs that do not move, at most." example:"10m"`
	TimedOut      bool      `query:"timed_out" doc:"With status or without: those that were CANCELED by their timeout, too."`
	Before        string    `query:"before" maxLength:"64" doc:"Only older than this job. A cursor goes further, so it may be left out then."`
	Fields
}) (*body[page[pawl.JobView]], error) {
	filter := []any{"jobs", in.Workspace, in.Status, in.Workflow, in.Depth, in.Parent, in.Continues, in.CreatedAfter, in.CreatedBefore, in.TimedOut, in.Schedule, in.Text, in.Fields, in.Metadata, in.Stuck}
	q := pawl.JobQuery{Workspace: in.Workspace, Workflow: in.Workflow, Parent: in.Parent, Continues: in.Continues, TimedOut: in.TimedOut,
		CreatedAfter: stamp(in.CreatedAfter), CreatedBefore: stamp(in.CreatedBefore), Schedule: in.Schedule, Text: in.Text, Summary: in.summary()}
	if in.Depth >= 0 {
		q.Depth = &in.Depth
	}
	for _, state := range in.Status {
		q.Statuses = append(q.Statuses, machine.State(state))
	}
	var err error
	if q.Metadata, err = membersOf(in.Metadata); err != nil {
		return nil, err
	}
	if q.Stuck, err = stuckFor(in.Stuck); err != nil {
		return nil, err
	}
	return placedPage(in.Window, filter, func(after string, limit int) ([]pawl.JobView, string, error) {
		q.Before, q.Limit = cmp.Or(after, in.Before), limit
		return s.Engine.JobPage(ctx, q)
	})
}

// membersOf reads members of metadata, each as KEY=VALUE.
func membersOf(list []string) (map[string]string, error) {
	members := make(map[string]string, len(list))
	for _, text := range list {
		key, value, is := strings.Cut(text, "=")
		if _, twice := members[key]; !is || key == "" || twice {
			return nil, pawl.Errorf(pawl.Invalid, "metadata %.100q: want KEY=VALUE, each key once", text)
		}
		members[key] = value
	}
	return members, nil
}

// stuckFor reads for how long jobs have not moved; 0 for none.
func stuckFor(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	still, err := time.ParseDuration(text)
	if err != nil || still < time.Microsecond {
		return 0, pawl.Errorf(pawl.Invalid, "stuck %q: want a duration of at least 1us, such as 10m", text)
	}
	return still, nil
}

func stamp(t time.Time) pawl.Timestamp {
	if t.IsZero() {
		return 0
	}
	return pawl.Timestamp(max(1, t.UnixMicro())) // 0 is no time
}

func pageOf[T any](items []T, next string) *body[page[T]] {
	if items == nil {
		items = []T{}
	}
	return &body[page[T]]{page[T]{items, next}}
}

// waitAtMost is how long get-job waits: proxies cut what is silent for a minute.
const waitAtMost = 25 * time.Second

// tagged is an answer that may be 304.
type tagged[T any] struct {
	Status int
	ETag   string `header:"ETag" doc:"Changes whenever the response does."`
	Body   *T
}

func (s *Service) getJob(ctx context.Context, in *struct {
	JobPath
	Wait  string    `query:"wait" enum:"ended,changed" doc:"ended: respond when the job has ended. changed: when it is not what If-None-Match names. At the latest after 25 seconds."`
	Match string    `header:"If-None-Match" maxLength:"128" doc:"The ETag of an earlier response."`
	At    time.Time `query:"at" doc:"Return the job as it was at this time."`
	Seq   int64     `query:"seq" minimum:"1" doc:"Return the job as it was at this sequence of its own trail."`
}) (*tagged[pawl.JobView], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	if !in.At.IsZero() || in.Seq != 0 {
		return s.pastJob(ctx, id, pawl.Moment{Time: stamp(in.At), Sequence: in.Seq}, in.Wait)
	}
	if in.Wait == "changed" && in.Match == "" {
		return nil, pawl.Errorf(pawl.Invalid, "wait: changed needs the header If-None-Match")
	}
	if in.Wait != "" {
		select {
		case s.waiting <- struct{}{}:
			defer func() { <-s.waiting }()
		default:
			p := Problemf(SlugRateLimited, "%d requests wait for jobs, as many as may at once", cap(s.waiting))
			p.RetryAfter = waitAtMost / 5
			return nil, p
		}
		long, cancel := context.WithTimeout(ctx, waitAtMost)
		defer cancel()
		if err := s.await(long, id, in.Wait, in.Match); err != nil && long.Err() == nil {
			return nil, err
		}
	}
	if in.Match != "" {
		version, err := s.Engine.JobVersion(ctx, id)
		if err != nil {
			return nil, err
		}
		if etag := quoted(version); matches(in.Match, etag) {
			return &tagged[pawl.JobView]{Status: http.StatusNotModified, ETag: etag}, nil
		}
	}
	v, err := s.Engine.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return &tagged[pawl.JobView]{Status: http.StatusOK, ETag: quoted(v.Sequence), Body: v}, nil
}

// pastJob answers a job as it was at a moment, rebuilt from its trail.
func (s *Service) pastJob(ctx context.Context, id pawl.ID, at pawl.Moment, wait string) (*tagged[pawl.JobView], error) {
	if at.Time != 0 && at.Sequence != 0 || wait != "" {
		return nil, pawl.Errorf(pawl.Invalid, "at: want one of at, seq and wait")
	}
	v, err := s.Engine.Past(ctx, id, at)
	if err != nil {
		return nil, err
	}
	return &tagged[pawl.JobView]{Status: http.StatusOK, Body: v}, nil
}

// await waits until a job has ended, or is not what match names.
func (s *Service) await(ctx context.Context, id pawl.ID, what, match string) error {
	if what == "ended" {
		_, err := s.Engine.Wait(ctx, id)
		return err
	}
	return s.Engine.Watch(ctx, id, func() (bool, error) {
		version, err := s.Engine.JobVersion(ctx, id)
		return err == nil && matches(match, quoted(version)), err
	})
}

// matches reports whether the header If-None-Match names a tag, as a proxy may have made it
// weak.
func matches(header, tag string) bool {
	for each := range strings.SplitSeq(header, ",") {
		if each = strings.TrimSpace(each); each == "*" || strings.TrimPrefix(each, "W/") == tag {
			return true
		}
	}
	return false
}

func quoted(version int64) string { return fmt.Sprintf("%q", fmt.Sprint(version)) }

// jobVerb makes an operation of a verb of jobs that has no arguments.
func (s *Service) jobVerb(verb func(*client.Jobs, context.Context, pawl.ID, pawl.Change) (pawl.Receipt, error)) func(context.Context, *struct {
	JobPath
	Command
}) (*receipt, error) {
	return func(ctx context.Context, in *struct {
		JobPath
		Command
	}) (*receipt, error) {
		id, err := in.job()
		if err != nil {
			return nil, err
		}
		c, err := in.change(ctx)
		if err != nil {
			return nil, err
		}
		return receiptOf(verb(s.client(ctx, "").Jobs, ctx, id, c))
	}
}

func (s *Service) retryJob(ctx context.Context, in *struct {
	JobPath
	Key
	Body *struct {
		Note
		From    []string                   `json:"from_step,omitempty" maxItems:"1000" doc:"Complete steps to run again, with all that depends on them."`
		Inputs  map[string]any             `json:"inputs,omitempty" doc:"Inputs that change."`
		Results map[string]json.RawMessage `json:"results,omitempty" doc:"Outputs for steps, by key, which then do not run."`
	} `required:"false"`
}) (*created, error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	b := given(in.Body)
	c, err := in.change(ctx, b.Note)
	if err != nil {
		return nil, err
	}
	return createdJob(s.Engine.RetryJob(ctx, id, pawl.Retry{From: b.From, Set: b.Inputs, Resolve: b.Results}, c))
}

func (s *Service) moveJob(ctx context.Context, in *struct {
	JobPath
	Key
	Body struct {
		Note
		Version int  `json:"version" minimum:"1" doc:"The version." example:"2"`
		DryRun  bool `json:"dry_run,omitempty" doc:"Change nothing."`
	}
}) (*body[workflow.Moved], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	moved, err := s.Engine.MoveJob(ctx, id, in.Body.Version, in.Body.DryRun, c)
	if err != nil {
		return nil, err
	}
	return &body[workflow.Moved]{*moved}, nil
}

func (s *Service) signalJob(ctx context.Context, in *struct {
	JobPath
	Key
	Body struct {
		Note
		Name string          `json:"name" maxLength:"128" doc:"The name of the event." example:"paid"`
		Data json.RawMessage `json:"data,omitempty" doc:"What the step gets as its output."`
	}
}) (*receipt, error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	return receiptOf(s.Engine.Signal(ctx, id, in.Body.Name, in.Body.Data, c))
}

func (s *Service) redactJob(ctx context.Context, in *struct {
	JobPath
	Key
	Body struct {
		Note
		Step string `json:"step,omitempty" maxLength:"256" doc:"Only of this step and its instances, by its id in the file."`
	}
}) (*body[pawl.Redaction], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	done, err := s.Engine.RedactJob(ctx, id, in.Body.Step, c, nil)
	if err != nil {
		return nil, err
	}
	return &body[pawl.Redaction]{done}, nil
}

func (s *Service) listJobHistory(ctx context.Context, in *struct {
	JobPath
	Window
	Step string `query:"step" maxLength:"256" doc:"Only the moves of this step, by its key."`
}) (*body[page[pawl.Transition]], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	return placedPage(in.Window, []any{"history", in.ID, in.Step}, func(after string, limit int) ([]pawl.Transition, string, error) {
		return s.Engine.HistoryPage(ctx, id, pawl.HistoryQuery{Step: in.Step, After: after, Limit: limit})
	})
}

func (s *Service) explainJob(ctx context.Context, in *struct {
	JobPath
	Step string `query:"step" maxLength:"256" doc:"Only this step, by its key."`
}) (*body[page[pawl.Reason]], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	reasons, err := s.Engine.Why(ctx, id, in.Step)
	if err != nil {
		return nil, err
	}
	return pageOf(reasons, ""), nil
}

func (s *Service) getJobDefinition(ctx context.Context, in *struct{ JobPath }) (*body[json.RawMessage], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	def, err := s.Engine.Definition(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[json.RawMessage]{def.Canonical()}, nil
}

func (s *Service) listJobLogs(ctx context.Context, in *struct {
	JobPath
	Window
	Step   string `query:"step" maxLength:"256" doc:"Only of this step, by its key."`
	Stream string `query:"stream" enum:"stdout,stderr,pawl" doc:"Only of this stream."`
}) (*body[page[pawl.LogLine]], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	return placedPage(in.Window, []any{"logs", in.ID, in.Step, in.Stream}, func(after string, limit int) ([]pawl.LogLine, string, error) {
		return s.Engine.LogPage(ctx, id, pawl.LogQuery{Step: in.Step, Stream: in.Stream, After: after, Limit: limit})
	})
}
