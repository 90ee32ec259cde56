package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/remote"
)

// overServer are the commands that work through a server: they use nothing but a client. A
// worker does, too. A name stands for what is below it, too.
var overServer = []string{"approve", "audit", "doctor", "events", "job", "jobs", "machine", "plan", "prune", "queue", "quota", "reject", "schedule", "service", "step", "submit",
	"token", "webhook", "worker", "workflow"}

// neutral are the commands that need neither a server nor a database. What is rehearsed works
// on a file alone, and on a server only if --server names one.
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
	if a.server == "" {
		for flag, value := range map[string]string{"--token-file": a.tokenFile, "--ca": a.ca, "--client-cert": a.cert, "--client-key": a.key} {
			if value != "" {
				return usage("name the server with --server or PAWL_SERVER", "%s is for a server", flag)
			}
		}
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
func (a *app) onServer(ctx context.Context, f func(*client.Client) error) error {
	return a.onRemote(ctx, func(e *remote.Engine) error {
		return f(client.Over(e, client.Config{Workspace: a.workspace, Actor: a.actor()}, nil))
	})
}

// onRemote calls f with the engine of the server.
func (a *app) onRemote(ctx context.Context, f func(*remote.Engine) error) (err error) {
	var c remote.Config
	if c.Token, err = a.token(); err != nil {
		return err
	}
	if a.ca != "" {
		if c.CA, err = files.Read(a.ca, maxCA); err != nil {
			return err
		}
	}
	if (a.cert == "") != (a.key == "") {
		return usage("", "--client-cert and --client-key: want both, or none")
	}
	if a.cert != "" {
		if c.Cert, err = files.Read(a.cert, maxCA); err != nil {
			return err
		}
		if c.Key, err = files.Read(a.key, maxCA); err != nil {
			return err
		}
	}
	e, err := remote.Open(ctx, a.server, c)
	if err != nil {
		return badServer(err)
	}
	defer e.Close()
	return f(e)
}

const (
	maxToken = 4 << 10 // bytes of the file of a token
	maxCA    = 1 << 20 // and of that of a CA
)

// token returns the secret of the token for the server, or nothing.
func (a *app) token() (string, error) {
	if a.tokenFile == "" {
		return a.getenv("PAWL_TOKEN"), nil
	}
	b, err := files.Read(a.tokenFile, maxToken)
	if secret := strings.TrimSpace(string(b)); err != nil || secret != "" {
		return secret, err
	}
	return "", usage("", "--token-file %s: it is empty", a.tokenFile)
}

// badServer names the flag in the error of a server that cannot be used.
func badServer(err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Kind != pawl.Invalid {
		return err
	}
	return usage(e.Hint, "--server: %s", err)
}
