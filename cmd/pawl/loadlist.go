package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/results"
	"github.com/pawl-dev/pawl/internal/remote"
)

const loadListLong = `List the load runs whose results are in the folder DIR, and those that are on and will have theirs
there, newest first: how each has ended, or its phase, and its figures; those of a run that is on
are of its last interval. A run that has begun and has neither a result nor a controller is lost.

DIR is pawl/load in XDG_STATE_HOME or ~/.local/state unless it is given. With --server these are the
runs that the server shows.

Exit codes: 0 ok, 3 there is no DIR, or the server shows no load runs, 6 the server is out of reach.`

func (a *app) newLoadList() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "list [DIR]", Short: "List load runs and their results", Long: loadListLong,
		Example: "  pawl load list\n  pawl load list results --json\n  pawl load list --server https://pawl.example.com",
		Args:    want(0, 1, "at most one DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			each, err := a.loadRuns(args)
			if err != nil {
				return err
			}
			list := console.LoadRuns(a.stdout, form == formJSON, a.outZone())
			if err := each(c.Context(), list.Add); err != nil {
				return err
			}
			if list.N == 0 && form == formText {
				fmt.Fprintln(a.stderr, "no load runs")
				return nil
			}
			return list.End()
		},
	}
	bindLoadForm(a, c, &form, "an object for each run, as the API has it")
	return c
}

// loadRuns returns what calls a function with each run: of the server, or of a folder.
func (a *app) loadRuns(args []string) (func(context.Context, func(*api.LoadRun) error) error, error) {
	switch {
	case a.server != "" && len(args) > 0:
		return nil, usage("leave it out", "DIR %s and --server: the server has a folder of its own", console.Shell(args[0]))
	case a.server != "":
		return func(ctx context.Context, f func(*api.LoadRun) error) error {
			return a.onRemote(ctx, func(e *remote.Engine) error { return remote.LoadRuns(ctx, e, f) })
		}, nil
	}
	dir := ""
	if len(args) > 0 {
		dir = args[0]
	} else {
		state, err := a.stateHome("name a folder", "results are")
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(state, "pawl", "load")
	}
	return func(ctx context.Context, f func(*api.LoadRun) error) error { return eachLoadRun(ctx, dir, f) }, nil
}

// eachLoadRun calls f with each run of a folder.
func eachLoadRun(ctx context.Context, dir string, f func(*api.LoadRun) error) error {
	folder, err := results.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	all, err := folder.List(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		run := api.LoadRunOf(&all[i])
		if err := f(&run); err != nil {
			return err
		}
	}
	return nil
}

// farSummary returns what the result of a run of the server says.
func (a *app) farSummary(ctx context.Context, name string) (*report.Summary, error) {
	var v api.LoadDetail
	if err := a.onRemote(ctx, func(e *remote.Engine) error { return e.LoadRun(ctx, name, &v) }); err != nil {
		return nil, err
	}
	if v.Summary == nil {
		message := fmt.Sprintf("run %s has no result: it is %s", name, v.State)
		if v.Reason != nil {
			message += ": " + *v.Reason
		}
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: message}
	}
	return v.Summary, nil
}

// farPage returns the report of a run of the server as a page.
func (a *app) farPage(ctx context.Context, name string) (page []byte, err error) {
	err = a.onRemote(ctx, func(e *remote.Engine) error {
		page, err = e.LoadReport(ctx, name)
		return err
	})
	return page, err
}

// farComparison compares two runs of the server.
func (a *app) farComparison(ctx context.Context, one, other string, force bool) (*report.Comparison, error) {
	var c report.Comparison
	err := a.onRemote(ctx, func(e *remote.Engine) error { return e.CompareLoads(ctx, one, other, force, &c) })
	return &c, err
}
