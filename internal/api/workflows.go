package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/workflow"
)

func (s *Service) workflowOperations() []operation {
	const tag = "workflows"
	return []operation{
		{id: "register-workflow", method: post, path: "/api/workflows", role: Operator, repeat: replayed, good: []int{201, 200}, errors: []Slug{SlugConflict, SlugKeyReused, SlugRequestInProgress}, tag: tag,
			summary: "Register a workflow", detail: "Makes a definition the next version of the workflow with its name (201). If it is the newest version already, nothing changes (200).", add: does(s, s.registerWorkflow)},
		{id: "list-workflows", method: get, path: "/api/workflows", role: Viewer, tag: tag,
			summary: "List workflows by name", detail: "Lists the newest version of each workflow of a workspace.", add: does(s, s.listWorkflows)},
		{id: "validate-workflow", method: post, path: "/api/workflows/validate", role: Viewer, repeat: settles, tag: tag,
			summary: "Check a workflow", detail: "Names every mistake of a workflow, each with its place. Nothing is stored.", add: does(s, s.validateWorkflow)},
		{id: "plan-workflow", method: post, path: "/api/workflows/plan", role: Viewer, repeat: settles, tag: tag,
			summary: "Say what a definition means for running jobs", detail: "Lists the unfinished jobs of the workflow: how the definition of each differs, and whether move-job could move it, or why not. Nothing is stored.", add: does(s, s.planWorkflow)},
		{id: "get-workflow", method: get, path: "/api/workflows/{name}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a workflow", detail: "Reads the newest version with its definition.", add: does(s, s.getWorkflow)},
		{id: "list-versions", method: get, path: "/api/workflows/{name}/versions", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List the versions of a workflow, newest first", detail: "Lists versions without their definitions.", add: does(s, s.listVersions)},
		{id: "get-workflow-version", method: get, path: "/api/workflows/{name}/versions/{version}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a version of a workflow", detail: "Reads a version with its definition. A version never changes.", add: does(s, s.getWorkflowVersion)},
	}
}

// A DefinitionBody is a workflow in the body of a request.
type DefinitionBody struct {
	Source     string          `json:"source,omitempty" doc:"The text of a workflow file, in YAML."`
	Definition json.RawMessage `json:"definition,omitempty" doc:"A definition in its canonical form, as get-workflow returns it."`
}

func (d *DefinitionBody) parsed() (*workflow.Definition, error) {
	if (d.Source == "") == (len(d.Definition) == 0) {
		return nil, pawl.Errorf(pawl.Invalid, "source: want one of source and definition")
	}
	return parsed(d.Source, d.Definition)
}

// A version is a version of a workflow with its definition.
type version struct {
	inspect.Registered
	Definition json.RawMessage `json:"definition"`
}

type registered struct {
	Status   int
	Location string `header:"Location" doc:"The path of the version."`
	Body     inspect.Registered
}

func (s *Service) registerWorkflow(ctx context.Context, in *struct {
	Key
	Body struct {
		Note
		DefinitionBody
		Workspace string `json:"workspace_id,omitempty" maxLength:"128" doc:"The workspace. Default: default."`
	}
}) (*registered, error) {
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	def, err := in.Body.parsed()
	if err != nil {
		return nil, err
	}
	v, made, err := s.client(ctx, in.Body.Workspace).Workflows.Register(ctx, def, "", c)
	if err != nil {
		return nil, err
	}
	out := &registered{http.StatusOK, fmt.Sprintf("/api/workflows/%s/versions/%d%s", v.Name, v.Version, inQuery(in.Body.Workspace)), registeredOf(v, def)}
	if out.Body.Made = &made; made {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func registeredOf(v *pawl.Version, def *workflow.Definition) inspect.Registered {
	return inspect.Registered{Workspace: v.Workspace, Name: v.Name, Version: v.Version, Hash: def.HashString(), Dir: v.Dir,
		At: pawl.Timestamp(v.At), Actor: v.Actor, Reason: v.Reason}
}

func (s *Service) listWorkflows(ctx context.Context, in *struct {
	InWorkspace
	Window
}) (*body[page[inspect.Registered]], error) {
	cl := s.client(ctx, in.Workspace)
	return sortedPage(in.Window, []any{"workflows", in.Workspace}, func(v *inspect.Registered) string { return v.Name }, func(f func(*inspect.Registered) error) error {
		return cl.Workflows.List(ctx, func(v *pawl.Version) error {
			r, err := inspect.VersionOf(ctx, cl, v)
			if err != nil {
				return err
			}
			return f(r)
		})
	})
}

func (s *Service) validateWorkflow(ctx context.Context, in *struct {
	Body DefinitionBody
}) (*body[checked], error) {
	def, err := in.Body.parsed()
	if err != nil {
		return nil, err
	}
	return &body[checked]{checked{def.Name, def.HashString(), def.Canonical()}}, nil
}

// A checked workflow is valid.
type checked struct {
	Name       string          `json:"name"`
	Hash       string          `json:"definition_hash"`
	Definition json.RawMessage `json:"definition"`
}

func (s *Service) planWorkflow(ctx context.Context, in *struct {
	Body struct {
		DefinitionBody
		Workspace string `json:"workspace_id,omitempty" maxLength:"128" doc:"The workspace. Default: default."`
	}
}) (*body[workflow.MovePlans], error) {
	def, err := in.Body.parsed()
	if err != nil {
		return nil, err
	}
	plans, err := s.client(ctx, in.Body.Workspace).Workflows.PlanMoves(ctx, def)
	if err != nil {
		return nil, err
	}
	return &body[workflow.MovePlans]{*plans}, nil
}

func (s *Service) getWorkflow(ctx context.Context, in *struct {
	NamePath
	InWorkspace
}) (*body[version], error) {
	if strings.Contains(in.Name, "@") { // a reference is no name
		return nil, asName(pawl.Errorf(pawl.Invalid, "there is no workflow %q", in.Name))
	}
	return s.version(ctx, in.Workspace, in.Name)
}

func (s *Service) getWorkflowVersion(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	Version string `path:"version" doc:"The version, from 1." example:"3"`
}) (*body[version], error) {
	return s.version(ctx, in.Workspace, in.Name+"@"+in.Version)
}

func (s *Service) version(ctx context.Context, workspace, reference string) (*body[version], error) {
	v, def, err := s.client(ctx, workspace).Workflows.Get(ctx, reference)
	if err != nil {
		return nil, asName(err)
	}
	return &body[version]{version{registeredOf(v, def), def.Canonical()}}, nil
}

func (s *Service) listVersions(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	Window
}) (*body[page[inspect.Registered]], error) {
	cl := s.client(ctx, in.Workspace)
	newest := func(v *inspect.Registered) string { return fmt.Sprintf("%010d", math.MaxInt32-v.Version) }
	return sortedPage(in.Window, []any{"versions", in.Workspace, in.Name}, newest, func(f func(*inspect.Registered) error) error {
		return asName(cl.Workflows.Versions(ctx, in.Name, func(v *pawl.Version) error {
			r, err := inspect.VersionOf(ctx, cl, v)
			if err != nil {
				return err
			}
			return f(r)
		}))
	})
}

// inQuery returns the query of a path for what is in a workspace other than the default.
func inQuery(workspace string) string {
	if workspace == "" || workspace == pawl.DefaultWorkspace {
		return ""
	}
	return "?workspace_id=" + url.QueryEscape(workspace)
}

// asName turns the error for a name that cannot be one, in a path, to one for a name that
// does not exist.
func asName(err error) error {
	if pawl.KindOf(err) != pawl.Invalid {
		return err
	}
	return &pawl.Error{Kind: pawl.NotFound, Message: err.Error()}
}
