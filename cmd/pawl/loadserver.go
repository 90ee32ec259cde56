package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/results"
)

func (s *service) bindLoad(c *cobra.Command) {
	c.Flags().StringVar(&s.load, "load", "", "a folder of results of load runs: serve them, and those that are on (see pawl load)")
	c.Flags().StringArrayVar(&s.agents, "load-agent", nil, "a load agent to show, HOST, HOST:PORT or unix:PATH; may be repeated")
}

// loadsOf returns the load runs that a process serves, or nil, and the load agents.
func (a *app) loadsOf(s *service) (*results.Folder, []api.LoadAgent, error) {
	agents, err := a.shownAgents(s.agents)
	if err != nil || s.load == "" {
		return nil, agents, err
	}
	dir, err := folder("--load", s.load)
	if err != nil {
		return nil, nil, err
	}
	f, err := results.Open(dir)
	return f, agents, err
}

// shownAgents returns the agents with some addresses, and how to ask them.
func (a *app) shownAgents(addresses []string) (all []api.LoadAgent, err error) {
	if len(addresses) == 0 {
		return nil, nil
	}
	credentials, err := a.stepCredentials()
	if err != nil {
		return nil, err
	}
	targets, err := controller.Targets(addresses, credentials)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		all = append(all, api.LoadAgent{Address: t.Address, Inspect: func(ctx context.Context) (*loadpb.GetAgentResponse, error) {
			return controller.Inspect(ctx, t.Address, credentials)
		}})
	}
	return all, nil
}
