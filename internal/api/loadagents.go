package api

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// agentTime is how long an agent has to reply by default.
const agentTime = 3 * time.Second

// A LoadAgent is an agent that is shown.
type LoadAgent struct {
	Address string
	Inspect func(ctx context.Context) (*loadpb.GetAgentResponse, error)
}

// A LoadAgentView is what an agent says of itself.
type LoadAgentView struct {
	Address   string        `json:"address"`
	Reachable bool          `json:"reachable"`
	Error     *string       `json:"error" doc:"Why it is not."`
	ID        *string       `json:"id"`
	Host      *string       `json:"hostname"`
	Version   *string       `json:"version" doc:"Of its program."`
	CPUs      uint32        `json:"cpus"`
	Memory    uint64        `json:"memory_bytes"`
	Engines   []string      `json:"engines"`
	Roots     []LoadRoot    `json:"roots"`
	Current   *LoadAgentRun `json:"current_run,omitempty"`
	Last      *LoadAgentRun `json:"last_run,omitempty" doc:"The last one that has ended, since the agent was started."`
	Kept      []string      `json:"kept_results" doc:"The ids of runs whose results it keeps."`
}

// A LoadRoot is a folder that runs may use.
type LoadRoot struct {
	Path  string `json:"path"`
	Free  uint64 `json:"free_bytes"`
	Limit uint64 `json:"limit_bytes" doc:"0: none."`
}

// A LoadAgentRun is the run of an agent.
type LoadAgentRun struct {
	Run     string         `json:"run_id"`
	State   machine.State  `json:"state"`
	Error   *string        `json:"error" doc:"Why it has failed, or was aborted."`
	MovedAt pawl.Timestamp `json:"state_changed_at"`
}

func (s *Service) listLoadAgents(ctx context.Context, in *struct{ Window }) (*body[page[LoadAgentView]], error) {
	if _, err := s.theLoads(); err != nil && len(s.LoadAgents) == 0 {
		return nil, err
	}
	p, err := indexedPage(in.Window, s.LoadAgents, "load-agents")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.AgentTime, agentTime))
	defer cancel()
	views := make([]LoadAgentView, len(p.Body.Items))
	var asking sync.WaitGroup
	for i, a := range p.Body.Items {
		asking.Go(func() { views[i] = a.view(ctx) })
	}
	asking.Wait()
	return &body[page[LoadAgentView]]{page[LoadAgentView]{views, p.Body.Next}}, nil
}

// view asks an agent what it is.
func (a *LoadAgent) view(ctx context.Context) LoadAgentView {
	v := LoadAgentView{Address: a.Address, Engines: []string{}, Roots: []LoadRoot{}, Kept: []string{}}
	r, err := a.Inspect(ctx)
	if err != nil {
		v.Error = orNothing(err.Error())
		return v
	}
	info := r.GetAgent()
	v.Reachable, v.ID, v.Host, v.Version = true, orNothing(info.GetId()), orNothing(info.GetHostname()), orNothing(info.GetBuild())
	v.CPUs, v.Memory, v.Engines, v.Kept = info.GetCpus(), info.GetMemoryBytes(), append(v.Engines, info.GetEngines()...), append(v.Kept, r.GetKeptRunIds()...)
	for _, root := range info.GetRoots() {
		v.Roots = append(v.Roots, LoadRoot{root.GetPath(), root.GetFreeBytes(), root.GetLimitBytes()})
	}
	if run := r.GetRun(); run != nil {
		shown := &LoadAgentRun{Run: run.GetRunId(), State: machine.State(run.GetState()), Error: orNothing(cmp.Or(run.GetError().GetMessage(), run.GetAbortReason()))}
		if n := len(run.GetTransitions()); n > 0 {
			shown.MovedAt = pawl.Timestamp(run.GetTransitions()[n-1].GetAtNs() / 1000)
		}
		if slices.Contains(lifecycle.Agent.Ends, shown.State) {
			v.Last = shown
		} else {
			v.Current = shown
		}
	}
	return v
}
