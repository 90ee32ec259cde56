package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/pawl-dev/pawl/internal/explain"
	"github.com/pawl-dev/pawl/workflow"
)

func (s *Service) detailOperations() []operation {
	const tag = "jobs"
	return []operation{
		{id: "get-job-graph", method: get, path: "/api/jobs/{id}/graph", role: Viewer, good: []int{200, 304}, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read the graph of a job's steps", detail: "Reads the steps of the workflow that a job runs, and what each needs, without their state. With If-None-Match the response is 304 while the job runs the same definition.", add: does(s, s.getJobGraph)},
		{id: "get-step-states", method: get, path: "/api/jobs/{id}/steps/{key}/states", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read the states of the instances of a step", detail: "Reads one letter for each instance of a fan-out. With at or seq they are as they were.", add: does(s, s.getStepStates)},
		{id: "get-timeline", method: get, path: "/api/jobs/{id}/timeline", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read when the steps of a job waited and ran", detail: "Reads spans of time for each step, and of a fan-out how many of its instances did the same at once. A step has its last 100 spans. With at or seq it is as it was known then.", add: does(s, s.getTimeline)},
		{id: "get-moments", method: get, path: "/api/jobs/{id}/moments", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Count the moves of a job over its time", detail: "Counts the moves of a job and its steps in buckets of time, with the sequence that the job had at the end of each: a seq for other operations.", add: does(s, s.getMoments)},
	}
}

// A Graph is the steps of a workflow.
type Graph struct {
	Workflow   string      `json:"workflow"`
	Definition string      `json:"definition_hash"`
	Nodes      []GraphNode `json:"nodes" doc:"In the order of the file."`
}

// A GraphNode is a step of a workflow.
type GraphNode struct {
	Step     string          `json:"step" doc:"Its id in the file."`
	Kind     string          `json:"kind"`
	Handler  string          `json:"handler,omitempty"`
	Queue    string          `json:"queue,omitempty"`
	Needs    []string        `json:"needs" doc:"The steps that it comes after."`
	Hook     string          `json:"hook,omitempty" doc:"failure or always, of a hook."`
	If       string          `json:"if,omitempty" doc:"Its condition."`
	Fans     bool            `json:"fans,omitempty" doc:"It runs once for each item."`
	Foreach  json.RawMessage `json:"foreach,omitempty" doc:"The items of a fan-out: a list, or an expression."`
	Parallel int             `json:"parallel,omitempty" doc:"How many instances run at once, at most."`
	Child    string          `json:"child,omitempty" doc:"The workflow of a child job: its name, or its file."`
	Vacant   bool            `json:"vacant,omitempty" doc:"It only keeps the place of a step that the job has left behind when it was moved."`
}

func (s *Service) getJobGraph(ctx context.Context, in *struct {
	JobPath
	Match string `header:"If-None-Match" maxLength:"128" doc:"The ETag of an earlier response."`
}) (*tagged[Graph], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	def, err := s.Engine.Definition(ctx, id)
	if err != nil {
		return nil, err
	}
	etag := `"` + def.HashString() + `"`
	if matches(in.Match, etag) {
		return &tagged[Graph]{Status: http.StatusNotModified, ETag: etag}, nil
	}
	g, err := graphOf(def)
	if err != nil {
		return nil, err
	}
	return &tagged[Graph]{Status: http.StatusOK, ETag: etag, Body: g}, nil
}

// graphOf returns the graph of a definition.
func graphOf(def *workflow.Definition) (*Graph, error) {
	var written struct {
		Order []string                                `json:"order"`
		Steps []map[string]json.RawMessage            `json:"steps"`
		Hooks map[string][]map[string]json.RawMessage `json:"hooks"`
	}
	if err := json.Unmarshal(def.Canonical(), &written); err != nil {
		return nil, err
	}
	keys := map[string]map[string]json.RawMessage{}
	for _, step := range slices.Concat(written.Steps, written.Hooks["failure"], written.Hooks["always"]) {
		var id string
		if json.Unmarshal(step["id"], &id) == nil {
			keys[id] = step
		}
	}
	g := &Graph{Workflow: def.Name, Definition: def.HashString(), Nodes: []GraphNode{}}
	for i := range def.Nodes {
		n := &def.Nodes[i]
		v := GraphNode{Step: n.ID, Kind: string(n.Kind), Handler: n.Handler, Queue: n.Queue, Needs: []string{}, Hook: string(n.Hook), Fans: n.Fans(), Parallel: n.Parallel, Foreach: keys[n.ID]["foreach"]}
		for _, need := range n.Needs {
			v.Needs = append(v.Needs, def.Node(need).ID)
		}
		_ = json.Unmarshal(keys[n.ID]["if"], &v.If) // none: it has no condition
		if n.Child != nil {
			if v.Child = n.Child.Name; v.Child == "" {
				v.Child = n.Child.File
			}
		}
		v.Vacant = len(written.Order) > 0 && v.If == "false" && len(keys[n.ID]) == 3 && string(keys[n.ID]["sleep"]) == `"0s"`
		g.Nodes = append(g.Nodes, v)
	}
	return g, nil
}

func (s *Service) getStepStates(ctx context.Context, in *struct {
	JobPath
	Key string `path:"key" doc:"The id of a step in the file." example:"load"`
	AtMoment
}) (*body[explain.Grid], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	at, err := in.moment()
	if err != nil {
		return nil, err
	}
	g, err := s.Engine.Grid(ctx, id, in.Key, at)
	if err != nil {
		return nil, err
	}
	return &body[explain.Grid]{*g}, nil
}

func (s *Service) getTimeline(ctx context.Context, in *struct {
	JobPath
	Step string `query:"step" maxLength:"256" doc:"Only this step with its instances, or this instance: load or load[3]."`
	AtMoment
}) (*body[explain.Timeline], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	at, err := in.moment()
	if err != nil {
		return nil, err
	}
	t, err := s.Engine.Timeline(ctx, id, in.Step, at)
	if err != nil {
		return nil, err
	}
	return &body[explain.Timeline]{*t}, nil
}

func (s *Service) getMoments(ctx context.Context, in *struct {
	JobPath
	Buckets int `query:"buckets" minimum:"1" maximum:"1000" default:"200" doc:"How many buckets, at most."`
}) (*body[explain.Moments], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	m, err := s.Engine.Moments(ctx, id, in.Buckets)
	if err != nil {
		return nil, err
	}
	return &body[explain.Moments]{*m}, nil
}
