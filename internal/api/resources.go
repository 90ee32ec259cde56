package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
)

func (s *Service) resourceOperations() []operation {
	const tag = "resources"
	return []operation{
		{id: "list-quotas", method: get, path: "/api/resources/quotas", role: Viewer, tag: tag,
			summary: "List limits by name", detail: "Lists the limits of a workspace: queue/NAME for steps in progress, depth/0 to depth/5 for the slots of running jobs.", add: does(s, s.listQuotas)},
		{id: "get-usage", method: get, path: "/api/resources/usage", role: Viewer, tag: tag,
			summary: "Say how much of each limit is taken", detail: "The same as list-quotas.", add: does(s, s.listQuotas)},
		{id: "set-quota", method: put, path: "/api/resources/quotas/{kind}/{name}", role: Admin, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict, SlugPreconditionFailed}, tag: tag,
			summary: "Set a limit", detail: "Limits a queue, or the jobs of a depth. What already runs continues.", add: does(s, s.setQuota)},
		{id: "clear-quota", method: del, path: "/api/resources/quotas/{kind}/{name}", role: Admin, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict, SlugPreconditionFailed}, tag: tag,
			summary: "Remove a limit", detail: "Removes a limit.", add: does(s, s.clearQuota)},
		{id: "set-quotas", method: post, path: "/api/resources/quotas", role: Admin, repeat: settles, errors: []Slug{SlugConflict}, tag: tag,
			summary: "Set several limits, all or none", detail: "Sets limits, or removes those with -1 slots, in one commit. Returns all limits of the workspace.", add: does(s, s.setQuotas)},
		{id: "preset-quotas", method: post, path: "/api/resources/quotas/preset", role: Admin, repeat: settles, errors: []Slug{SlugConflict}, tag: tag,
			summary: "Set limits that go together", detail: "Sets depth/0 to depth/5 to 10, 8, 5, 3, 2 and 1: fewer slots for jobs that are deeper below others.", add: does(s, s.presetQuotas)},
		{id: "allocate-resources", method: post, path: "/api/resources/allocate", role: Operator, repeat: replayed, good: []int{201}, errors: []Slug{SlugConflict, SlugKeyReused, SlugRequestInProgress}, tag: tag,
			summary: "Reserve slots of the limit of a depth", detail: "Keeps slots from jobs until they are released, or until ttl_s seconds have passed. They count as taken. A depth without a limit has slots without end.", add: does(s, s.allocate)},
		{id: "release-resources", method: post, path: "/api/resources/release", role: Operator, repeat: replayed, errors: []Slug{SlugNotFound, SlugConflict, SlugKeyReused, SlugRequestInProgress}, tag: tag,
			summary: "Release reserved slots", detail: "Ends a reservation. One that was released or has expired is 404.", add: does(s, s.release)},
		{id: "get-quota", method: get, path: "/api/resources/quotas/{kind}/{name}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a limit", detail: "Reads a limit, and how much of it is taken.", add: does(s, s.getQuota)},
		{id: "list-queues", method: get, path: "/api/queues", role: Viewer, tag: tag,
			summary: "List queues by name", detail: "Lists the queues of a workspace that steps wait in, workers serve or limits name, and those that are paused.", add: does(s, s.listQueues)},
		{id: "get-queue", method: get, path: "/api/queues/{name}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a queue", detail: "Reads a queue that list-queues has. While it is paused it has an ETag.", add: does(s, s.getQueue)},
		{id: "pause-queue", method: post, path: "/api/queues/{name}/pause", role: Operator, repeat: replayed, good: []int{201}, errors: queueErrors, tag: tag,
			summary: "Pause a queue", detail: "Keeps the steps of a queue from being claimed until it is resumed. Those that run go on. The receipt is of the pause.", add: does(s, s.queueVerb(s.Engine.PauseQueue, http.StatusCreated))},
		{id: "resume-queue", method: post, path: "/api/queues/{name}/resume", role: Operator, repeat: replayed, errors: queueErrors, tag: tag,
			summary: "Resume a queue", detail: "Ends the pause of a queue.", add: does(s, s.queueVerb(s.Engine.ResumeQueue, http.StatusOK))},
		{id: "list-queue-history", method: get, path: "/api/queues/{name}/history", role: Viewer, tag: tag,
			summary: "List the pauses of a queue", detail: "Lists the moves of the pauses of a queue that are kept, the newest pause first: who paused and resumed it, when, and why.", add: does(s, s.listQueueHistory)},
	}
}

var queueErrors = []Slug{SlugNotFound, SlugConflict, SlugInvalidTransition, SlugPreconditionFailed, SlugKeyReused, SlugRequestInProgress}

func (s *Service) listQuotas(ctx context.Context, in *struct{ InWorkspace }) (*body[page[pawl.QuotaView]], error) {
	quotas, err := s.Engine.Quotas(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	return pageOf(quotas, ""), nil
}

// A QuotaPath names a limit.
type QuotaPath struct {
	Kind string `path:"kind" doc:"queue or depth." example:"queue"`
	Name string `path:"name" doc:"The name of the queue, or the depth: 0 to 5." example:"billing"`
}

func (s *Service) getQuota(ctx context.Context, in *struct {
	QuotaPath
	InWorkspace
}) (*versioned[pawl.QuotaView], error) {
	quotas, err := s.Engine.Quotas(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	name := in.Kind + "/" + in.Name
	for _, q := range quotas {
		if q.Name == name {
			return &versioned[pawl.QuotaView]{quoted(q.Version), q}, nil
		}
	}
	return nil, pawl.Errorf(pawl.NotFound, "there is no quota %s in workspace %s", name, in.Workspace)
}

func (s *Service) setQuota(ctx context.Context, in *struct {
	QuotaPath
	InWorkspace
	IfMatch
	Body struct {
		Note
		Slots int `json:"slots" minimum:"0" maximum:"1000000" doc:"How many at once."`
	}
}) (*versioned[pawl.QuotaView], error) {
	return s.limit(ctx, in.Workspace, in.QuotaPath, in.IfMatch, in.Body.Slots, in.Body.Reason)
}

func (s *Service) clearQuota(ctx context.Context, in *struct {
	QuotaPath
	InWorkspace
	IfMatch
	Reason string `query:"reason" maxLength:"4096" doc:"Why, for the audit trail."`
}) (*versioned[pawl.QuotaView], error) {
	return s.limit(ctx, in.Workspace, in.QuotaPath, in.IfMatch, -1, in.Reason)
}

// limit sets a limit, or removes it if the slots are negative, and returns it.
func (s *Service) limit(ctx context.Context, workspace string, of QuotaPath, m IfMatch, slots int, reason string) (*versioned[pawl.QuotaView], error) {
	version, err := m.version()
	if err != nil {
		return nil, err
	}
	q := pawl.Quota{Workspace: workspace, Name: of.Kind + "/" + of.Name, Slots: slots}
	c := pawl.Change{Actor: ActorOf(ctx), Reason: reason, Version: version}
	if err := s.Engine.SetQuotas(ctx, []pawl.Quota{q}, c); err != nil {
		return nil, err
	}
	out := pawl.QuotaView{Name: q.Name, Slots: slots, Actor: c.Actor, Reason: reason}
	all, err := s.Engine.Quotas(ctx, workspace)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if v.Name == q.Name {
			out = v
		}
	}
	tag := ""
	if slots >= 0 {
		tag = quoted(out.Version)
	}
	return &versioned[pawl.QuotaView]{tag, out}, nil
}

// A limit is what set-quotas sets.
type limit struct {
	Name  string `json:"name" maxLength:"134" doc:"queue/NAME, or depth/0 to depth/5." example:"queue/billing"`
	Slots int    `json:"slots" minimum:"-1" maximum:"1000000" doc:"How many at once. -1: the limit is removed."`
}

func (s *Service) setQuotas(ctx context.Context, in *struct {
	InWorkspace
	Body struct {
		Note
		Quotas []limit `json:"quotas" minItems:"1" maxItems:"100"`
	}
}) (*body[page[pawl.QuotaView]], error) {
	set := make([]pawl.Quota, len(in.Body.Quotas))
	for i, q := range in.Body.Quotas {
		set[i] = pawl.Quota{Workspace: in.Workspace, Name: q.Name, Slots: q.Slots}
	}
	if err := s.Engine.SetQuotas(ctx, set, pawl.Change{Actor: ActorOf(ctx), Reason: in.Body.Reason}); err != nil {
		return nil, err
	}
	return s.listQuotas(ctx, &struct{ InWorkspace }{in.InWorkspace})
}

func (s *Service) presetQuotas(ctx context.Context, in *struct {
	InWorkspace
	Body struct {
		Note
		Preset string `json:"preset" enum:"hierarchy" doc:"Its name."`
	}
}) (*body[page[pawl.QuotaView]], error) {
	c := pawl.Change{Actor: ActorOf(ctx), Reason: in.Body.Reason}
	var set []pawl.Quota
	for depth, slots := range engine.Hierarchy {
		set = append(set, pawl.Quota{Workspace: in.Workspace, Name: fmt.Sprintf("depth/%d", depth), Slots: slots})
	}
	if err := s.Engine.SetQuotas(ctx, set, c); err != nil {
		return nil, err
	}
	return s.listQuotas(ctx, &struct{ InWorkspace }{in.InWorkspace})
}

func (s *Service) listQueues(ctx context.Context, in *struct{ OfWorkspace }) (*body[page[pawl.QueueView]], error) {
	queues, err := s.Engine.Queues(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	return pageOf(queues, ""), nil
}

func (s *Service) getQueue(ctx context.Context, in *struct {
	NamePath
	InWorkspace
}) (*versioned[pawl.QueueView], error) {
	v, err := s.Engine.Queue(ctx, pawl.QueueName{Workspace: in.Workspace, Name: in.Name})
	if err != nil {
		return nil, err
	}
	tag := ""
	if v.Paused != nil {
		id, err := pawl.ParseID(pawl.QueuePausePrefix, v.Paused.ID)
		if err != nil {
			return nil, err
		}
		tag = quoted(int64(id.QueuePauseKey()))
	}
	return &versioned[pawl.QueueView]{tag, *v}, nil
}

// An operatedQueue is the response to pausing or resuming a queue.
type operatedQueue struct {
	Status   int
	Replayed string `header:"Idempotency-Replayed" doc:"true: the response is that to an earlier request with the same key."`
	Body     pawl.Receipt
}

func (s *Service) queueVerb(do func(context.Context, pawl.QueueName, pawl.Change) (pawl.Receipt, error), status int) func(context.Context, *struct {
	NamePath
	InWorkspace
	IfMatch
	Command
}) (*operatedQueue, error) {
	return func(ctx context.Context, in *struct {
		NamePath
		InWorkspace
		IfMatch
		Command
	}) (*operatedQueue, error) {
		c, err := in.change(ctx)
		if err == nil {
			c.Version, err = in.version()
		}
		if err != nil {
			return nil, err
		}
		r, err := do(ctx, pawl.QueueName{Workspace: in.Workspace, Name: in.Name}, c)
		if err != nil {
			return nil, err
		}
		return &operatedQueue{status, replayedHeader(r.Replayed), r}, nil
	}
}

func (s *Service) listQueueHistory(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	Window
}) (*body[page[pawl.Transition]], error) {
	return placedPage(in.Window, []any{"queue", in.Workspace, in.Name}, func(after string, limit int) ([]pawl.Transition, string, error) {
		n := pawl.QueueName{Workspace: in.Workspace, Name: in.Name}
		return s.Engine.QueueHistoryPage(ctx, n, pawl.HistoryQuery{After: after, Limit: limit})
	})
}

// A reservation is the answer to what makes or ends one.
type reservation struct {
	Status   int
	Replayed string `header:"Idempotency-Replayed" doc:"true: the response is that to an earlier request with the same key."`
	Body     pawl.ReservationView
}

func (s *Service) allocate(ctx context.Context, in *struct {
	Key
	Body struct {
		Note
		Workspace string `json:"workspace_id,omitempty" maxLength:"128" doc:"The workspace. Default: default."`
		Depth     int    `json:"depth,omitempty" minimum:"0" maximum:"5" doc:"The depth of the jobs for which the slots are. Default: 0."`
		Slots     int    `json:"worker_count" minimum:"1" maximum:"10" doc:"How many slots."`
		TTL       int    `json:"ttl_s" minimum:"1" maximum:"3600" doc:"The seconds until the reservation expires." example:"60"`
	}
}) (*reservation, error) {
	b := &in.Body
	c, err := in.change(ctx, b.Note)
	if err != nil {
		return nil, err
	}
	r, err := s.Engine.Reserve(ctx, b.Workspace, b.Depth, b.Slots, time.Duration(b.TTL)*time.Second, c)
	if err != nil {
		return nil, err
	}
	return &reservation{Status: http.StatusCreated, Replayed: replayedHeader(r.Replayed), Body: r}, nil
}

func (s *Service) release(ctx context.Context, in *struct {
	Key
	Body struct {
		Note
		Workspace string `json:"workspace_id,omitempty" maxLength:"128" doc:"The workspace. Default: default."`
		ID        string `json:"reservation_id" maxLength:"64" doc:"As allocate-resources returned it." example:"r_019ac1f0a3c47d5e8f00112233445566"`
	}
}) (*reservation, error) {
	id, err := parseID(pawl.ReservationPrefix, in.Body.ID, "reservation")
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	r, err := s.Engine.Release(ctx, in.Body.Workspace, id, c)
	if err != nil {
		return nil, err
	}
	return &reservation{Status: http.StatusOK, Replayed: replayedHeader(r.Replayed), Body: r}, nil
}
