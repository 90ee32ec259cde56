package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/simulate"
	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/workflow"
)

// Bounds of what only computes.
const (
	maxExplored  = 2                // at once; others wait
	exploreTime  = 60 * time.Second // with the wait
	maxSimulated = 200_000          // events of one simulated job
)

func (s *Service) rehearsalOperations() []operation {
	return []operation{
		{id: "verify-workflow", method: post, path: "/api/workflows/verify", role: Viewer, repeat: settles, tag: "workflows",
			summary: "Find faults of a valid workflow", detail: "Explores every way in which a workflow can go, as \"pawl verify\" does, for 60 seconds at most: a longer one is 503. Nothing is stored.", add: does(s, s.verifyWorkflow)},
		{id: "simulate-workflow", method: post, path: "/api/workflows/simulate", role: Viewer, repeat: settles, tag: "workflows",
			summary: "Run a workflow on a simulated clock", detail: "Runs a workflow with outcomes that are made up from a seed, as \"pawl simulate\" does, for 60 seconds at most, and for 200,000 events of a job. No step is run, and nothing is stored.", add: does(s, s.simulateWorkflow)},
		{id: "compare-jobs", method: get, path: "/api/diff", role: Viewer, errors: []Slug{SlugNotFound}, tag: "jobs",
			summary: "Compare two jobs", detail: "Compares the definitions, inputs, steps and outputs of two jobs, as \"pawl job diff\" does.", add: does(s, s.compareJobs)},
	}
}

// explore takes a place among what is explored, and returns the context for it.
func (s *Service) explore(ctx context.Context) (context.Context, func(), error) {
	within, cancel := context.WithTimeout(ctx, exploreTime)
	select {
	case s.exploring <- struct{}{}:
		return within, func() { <-s.exploring; cancel() }, nil
	case <-within.Done():
		cancel()
		return nil, nil, tooLong(within.Err())
	}
}

// tooLong says that the time of an exploration is up, if it is.
func tooLong(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "it takes more than 60 seconds", Hint: "the command line has no such limit on a file"}
	}
	return err
}

// GivenInputs are inputs that are fixed.
type GivenInputs struct {
	Inputs json.RawMessage `json:"inputs,omitempty" doc:"An object: inputs that are fixed, by name. Others are made up."`
}

// known returns the inputs that a workflow has, by name.
func (g GivenInputs) known(def *workflow.Definition) (map[string]any, error) {
	given := map[string]any{}
	if len(g.Inputs) > 0 {
		d := json.NewDecoder(strings.NewReader(string(g.Inputs)))
		d.UseNumber()
		if err := d.Decode(&given); err != nil {
			return nil, pawl.Errorf(pawl.Invalid, "inputs: want a JSON object")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(def.Inputs, func(i workflow.Input) bool { return i.Name == name }) {
			_, err := def.ParseInput(name, "") // names the nearest
			return nil, err
		}
	}
	return given, nil
}

func (s *Service) verifyWorkflow(ctx context.Context, in *struct {
	Body struct {
		DefinitionBody
		GivenInputs
	}
}) (*body[verify.Report], error) {
	def, err := in.Body.parsed()
	if err != nil {
		return nil, err
	}
	given, err := in.Body.known(def)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := s.explore(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	report, err := verify.Verify(ctx, def, given)
	if err != nil {
		return nil, tooLong(err)
	}
	if in.Body.Source != "" {
		report.Locate([]byte(in.Body.Source))
	}
	return &body[verify.Report]{*report}, nil
}

// A simulated is the outcome of one simulated job, or of several.
type simulated struct {
	Result  *simulate.Result  `json:"result,omitempty"`
	Outlook *simulate.Outlook `json:"outlook,omitempty"`
}

func (s *Service) simulateWorkflow(ctx context.Context, in *struct {
	Body struct {
		DefinitionBody
		GivenInputs
		Seed   uint64           `json:"seed,omitempty" maximum:"9007199254740991" doc:"The seed of everything that is made up. Default: 0."`
		Runs   int              `json:"runs,omitempty" minimum:"1" maximum:"10000" default:"1" doc:"How many seeds to run, from seed on. With more than one the response has outlook, and no result."`
		Faults []simulate.Fault `json:"faults,omitempty" maxItems:"3" enum:"kill,slow,duplicate" doc:"What goes wrong beside the steps."`
	}
}) (*body[simulated], error) {
	b := &in.Body
	def, err := b.parsed()
	if err != nil {
		return nil, err
	}
	c := simulate.Config{Seed: b.Seed, Faults: b.Faults, Most: maxSimulated}
	if c.Inputs, err = b.known(def); err != nil {
		return nil, err
	}
	ctx, leave, err := s.explore(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var out simulated
	if b.Runs > 1 {
		out.Outlook, err = simulate.Many(ctx, def, c, b.Runs)
	} else {
		out.Result, err = simulate.Run(ctx, def, c)
	}
	if err != nil {
		return nil, tooLong(err)
	}
	return &body[simulated]{out}, nil
}

func (s *Service) compareJobs(ctx context.Context, in *struct {
	A string `query:"a" required:"true" maxLength:"64" doc:"The id of the first job." example:"j_019ac1f0a3c47d5e8f00112233445566"`
	B string `query:"b" required:"true" maxLength:"64" doc:"The id of the second job." example:"j_019ac1f0a3c47d5e8f00112233445567"`
}) (*body[inspect.Diff], error) {
	var ids [2]pawl.ID
	for i, text := range []string{in.A, in.B} {
		id, err := parseID(pawl.JobPrefix, text, "job")
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	d, err := inspect.Compare(ctx, client.Over(s.Engine, client.Config{}, nil), ids[0], ids[1])
	if err != nil {
		return nil, err
	}
	return &body[inspect.Diff]{*d}, nil
}
