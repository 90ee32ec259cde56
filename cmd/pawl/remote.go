package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// overServer are the commands that work through a server: they use nothing but a client. A
// name stands for what is below it, too.
var overServer = []string{"approve", "audit", "events", "job", "jobs", "machine", "plan", "prune", "quota", "reject", "schedule", "step", "submit",
	"worker history", "worker list", "worker pause", "worker resume", "worker show", "worker terminate", "workflow"}

// neutral are the commands that need neither a server nor a database.
var neutral = []string{"", "__complete", "__completeNoDesc", "completion", "help", "simulate", "validate", "verify", "version"}

// isOf reports whether a command is one of those named, or below one.
func isOf(c *cobra.Command, names []string) bool {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	return slices.ContainsFunc(names, func(name string) bool {
		return path == name || name != "" && strings.HasPrefix(path, name+" ")
	})
}

// locate decides between the server and the database, by the flags and the environment. A
// flag comes before a variable, and PAWL_SERVER before PAWL_DATABASE. A command that is local
// by nature ignores PAWL_SERVER.
func (a *app) locate(c *cobra.Command) error {
	switch {
	case isOf(c, neutral): // completion comes back with the command that is completed
		return nil
	case a.server != "" && a.database != "":
		return usage("name one of them: the server has a database of its own", "--server and --database: want one of them")
	case a.server != "" && !isOf(c, overServer):
		return usage(insteadOf(c), "%s works on the database, and not through a server", c.CommandPath())
	case a.server == "" && a.database == "" && isOf(c, overServer):
		a.server = a.getenv("PAWL_SERVER")
	}
	if a.database == "" && a.server == "" {
		a.database = a.getenv("PAWL_DATABASE")
	}
	return nil
}

// insteadOf says what to do instead of a command that does not work through a server.
func insteadOf(c *cobra.Command) string {
	if name := c.Name(); name == "run" || name == "exec" {
		return "submit the workflow to the workers of the server with: pawl submit FILE --wait"
	}
	return "leave out --server, on a machine that reaches the database"
}

// onServer calls f with a client of the server.
func (a *app) onServer(ctx context.Context, f func(*client.Client) error) (err error) {
	cl, err := client.Open(ctx, a.server, client.Config{Workspace: a.workspace, Actor: a.actor()})
	if err != nil {
		return badServer(err)
	}
	defer func() { err = errors.Join(err, cl.Close()) }()
	return f(cl)
}

// badServer names the flag in the error of a server that cannot be used.
func badServer(err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Kind != pawl.Invalid {
		return err
	}
	return usage(e.Hint, "--server: %s", err)
}
