package api

import (
	"context"
	"fmt"

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
		{id: "set-quota", method: put, path: "/api/resources/quotas/{kind}/{name}", role: Admin, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict}, tag: tag,
			summary: "Set a limit", detail: "Limits a queue, or the jobs of a depth. What already runs continues.", add: does(s, s.setQuota)},
		{id: "clear-quota", method: del, path: "/api/resources/quotas/{kind}/{name}", role: Admin, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict}, tag: tag,
			summary: "Remove a limit", detail: "Removes a limit.", add: does(s, s.clearQuota)},
		{id: "set-quotas", method: post, path: "/api/resources/quotas", role: Admin, repeat: settles, errors: []Slug{SlugConflict}, tag: tag,
			summary: "Set several limits, all or none", detail: "Sets limits, or removes those with -1 slots, in one commit. Answers all limits of the workspace.", add: does(s, s.setQuotas)},
		{id: "preset-quotas", method: post, path: "/api/resources/quotas/preset", role: Admin, repeat: settles, errors: []Slug{SlugConflict}, tag: tag,
			summary: "Set limits that go together", detail: "Sets depth/0 to depth/5 to 10, 8, 5, 3, 2 and 1: fewer slots for jobs that are deeper below others.", add: does(s, s.presetQuotas)},
		{id: "list-queues", method: get, path: "/api/queues", role: Viewer, tag: tag,
			summary: "List queues by name", detail: "Lists the queues of a workspace that steps wait in, workers serve or limits name.", add: does(s, s.listQueues)},
	}
}

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

func (s *Service) setQuota(ctx context.Context, in *struct {
	QuotaPath
	InWorkspace
	Body struct {
		Note
		Slots int `json:"slots" minimum:"0" maximum:"1000000" doc:"How many at once."`
	}
}) (*body[pawl.QuotaView], error) {
	return s.limit(ctx, in.Workspace, in.QuotaPath, in.Body.Slots, in.Body.Reason)
}

func (s *Service) clearQuota(ctx context.Context, in *struct {
	QuotaPath
	InWorkspace
	Reason string `query:"reason" maxLength:"4096" doc:"Why, for the audit trail."`
}) (*body[pawl.QuotaView], error) {
	return s.limit(ctx, in.Workspace, in.QuotaPath, -1, in.Reason)
}

// limit sets a limit, or removes it if the slots are negative, and returns it.
func (s *Service) limit(ctx context.Context, workspace string, of QuotaPath, slots int, reason string) (*body[pawl.QuotaView], error) {
	q := pawl.Quota{Workspace: workspace, Name: of.Kind + "/" + of.Name, Slots: slots}
	c := pawl.Change{Actor: ActorOf(ctx), Reason: reason}
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
	return &body[pawl.QuotaView]{out}, nil
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
