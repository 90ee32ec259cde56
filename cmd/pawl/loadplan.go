package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

const loadPlanLong = `Show what a run of a load FILE would create on each agent, whether there is room for it, what direct
I/O has to be aligned to, and how long it would take. Nothing is left behind: the estimate of the
time comes from writing a little to a file that is removed.

Without --agents it is the plan of --local agents on this machine, beneath --root.

Exit codes: 0 it could be run, 1 it could not, 2 the file or a flag is wrong, 3 the file does not
exist, 6 an agent is out of reach.`

// planLimit is for an agent to reply to the question of a plan.
const planLimit = 30 * time.Second

func (a *app) newLoadPlan() *cobra.Command {
	var o loadRun
	form := formText
	c := &cobra.Command{
		Use: "plan FILE", Short: "Show what a run of a load file would create", Long: loadPlanLong,
		Example: "  pawl load plan mixed.yaml --root /mnt/data\n  pawl load plan mixed.yaml --agents host1,host2 --ca ca.pem --token-file token",
		Args:    want(1, 1, "one FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := inRange("--local", o.local, 1, maxLocal); err != nil {
				return err
			}
			if err := o.checkAgents(c); err != nil {
				return err
			}
			return a.loadPlan(c.Context(), args[0], o, form)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.agents, "agents", nil, "agents to ask, each HOST, HOST:PORT or unix:PATH; the default port is "+controller.DefaultPort)
	f.IntVar(&o.local, "local", 1, "how many agents on this machine to plan for, 1 to 64, if --agents names none")
	f.StringVar(&o.root, "root", "", "folder that local agents would work beneath; default that of temporary files")
	f.StringArrayVar(&o.stores, "s3", nil, "part of a bucket that local agents could use, as https://HOST/BUCKET/PREFIX; may be repeated")
	bindLoadForm(a, c, &form, "a list of plans")
	return c
}

func (a *app) loadPlan(ctx context.Context, path string, o loadRun, form string) error {
	src, test, err := readLoad(path)
	if err != nil {
		return err
	}
	var plans []console.LoadPlan
	if len(o.agents) > 0 {
		plans, err = a.agentPlans(ctx, src, o)
	} else {
		plans, err = a.localPlans(ctx, src, test, o)
	}
	if err != nil {
		return err
	}
	if err := a.show(form, plans, func() error { return console.LoadPlans(a.stdout, plans) }); err != nil {
		return err
	}
	for _, p := range plans {
		if len(p.Faults) > 0 {
			return exit{codeFailed}
		}
	}
	return nil
}

// localPlans returns the plans of agents on this machine.
func (a *app) localPlans(ctx context.Context, src []byte, test *spec.Test, o loadRun) (plans []console.LoadPlan, err error) {
	if o.root == "" {
		o.root = os.TempDir()
	}
	root, err := filepath.Abs(o.root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, files.Error(o.root, err)
	}
	job := workload.Job{Config: string(src), AgentCount: o.local, Root: root}
	if test.Engine == spec.S3 {
		if job, err = a.storeJob(job, test, o.stores); err != nil {
			return nil, err
		}
	}
	for i := range o.local {
		job.AgentIndex = i
		plan, faults := workload.Plan(ctx, job)
		plans = append(plans, console.LoadPlanOf("local", plan, faults))
	}
	return plans, nil
}

// agentPlans asks all agents at once, and returns their plans in the order of their names.
func (a *app) agentPlans(ctx context.Context, src []byte, o loadRun) ([]console.LoadPlan, error) {
	targets, _, err := a.loadAgents(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	responses, failures := make([]*loadpb.ValidateWorkloadResponse, len(targets)), make([]error, len(targets))
	var asked sync.WaitGroup
	for i, t := range targets {
		asked.Go(func() { responses[i], failures[i] = controller.Validate(ctx, t, src, i, len(targets)) })
	}
	asked.Wait()
	var plans []console.LoadPlan
	for i, t := range targets {
		if failures[i] != nil {
			return nil, failures[i]
		}
		plans = append(plans, console.LoadPlanOf(t.Address, responses[i].GetPlan(), responses[i].GetErrors()))
	}
	return plans, nil
}
