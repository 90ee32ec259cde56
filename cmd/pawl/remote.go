package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/profile"
	"github.com/pawl-dev/pawl/internal/remote"
)

// locate decides between the server and the database, by the flags, the environment and the
// profiles; see docs/api.md for the order. A command that does not work through a server ignores
// what is not a flag.
func (a *app) locate(c *cobra.Command) error {
	at := rowOf(c).reach
	if at == alone { // completion comes back with the command that is completed
		return nil
	}
	if err := a.oneTarget(); err != nil {
		return err
	}
	switch {
	case a.server+a.profile != "" && at == onHost:
		return usage("leave it out", "%s works on this host, and not through a server", c.CommandPath())
	case a.server+a.profile != "" && at == onAgents:
		return usage("name agents with --agents", "%s works on load agents, and not through a server", c.CommandPath())
	case a.server+a.profile != "" && at == onData:
		return usage(insteadOf(c), "%s works on the database, and not through a server", c.CommandPath())
	case a.profile != "":
		return a.useProfile()
	case a.server+a.database == "" && at == onBoth:
		if err := a.fromOutside(); err != nil {
			return err
		}
	case a.server+a.database == "":
		a.database = a.getenv("PAWL_DATABASE")
	}
	if a.server == "" && at != onFiles && at != onAgents {
		return a.noCredentials("is for a server", "name the server with --server or PAWL_SERVER")
	}
	return nil
}

// oneTarget refuses flags that name more than one database or server.
func (a *app) oneTarget() error {
	switch {
	case a.server != "" && a.database != "":
		return usage("name one of them: the server has a database of its own", "--server and --database: want one of them")
	case a.profile != "" && a.database != "":
		return usage("name one of them: the server of the profile has a database of its own", "--profile and --database: want one of them")
	case a.profile != "" && a.server != "":
		return usage("name one of them: a profile has a server, and credentials for it alone", "--profile and --server: want one of them")
	}
	return nil
}

// fromOutside takes the first that is there: PAWL_SERVER, PAWL_PROFILE, PAWL_DATABASE, and the default
// profile. Otherwise it is the default database.
func (a *app) fromOutside() error {
	a.server = a.getenv("PAWL_SERVER")
	if a.server != "" {
		return nil
	}
	if a.profile = a.getenv("PAWL_PROFILE"); a.profile == "" {
		if a.database = a.getenv("PAWL_DATABASE"); a.database != "" {
			return nil
		}
		if err := a.defaultProfile(); err != nil || a.profile == "" {
			return err
		}
	}
	return a.useProfile()
}

// noCredentials refuses the flags for the credentials of a server.
func (a *app) noCredentials(why, hint string) error {
	for _, f := range [][2]string{{"--token-file", a.tokenFile}, {"--ca", a.ca}, {"--client-cert", a.cert}, {"--client-key", a.key}} {
		if f[1] != "" {
			return usage(hint, "%s %s", f[0], why)
		}
	}
	return nil
}

// insteadOf says what to do instead of a command that does not work through a server.
func insteadOf(c *cobra.Command) string {
	if name := pathOf(c); name == "run" || name == "exec" {
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
	if c.Token, err = a.token(ctx); err != nil {
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

// token returns the secret of the token for the server, or nothing. PAWL_TOKEN is for the server
// that --server or PAWL_SERVER names, and never for that of a profile.
func (a *app) token(ctx context.Context) (string, error) {
	switch {
	case a.tokenCommand != "":
		return profile.Secret(ctx, a.tokenCommand, profile.CommandTime, a.stderr)
	case a.tokenFile == "" && a.profile != "":
		return "", nil
	case a.tokenFile == "":
		return a.getenv("PAWL_TOKEN"), nil
	}
	b, err := files.Read(a.tokenFile, maxToken)
	if secret := strings.TrimSpace(string(b)); err != nil || secret != "" {
		return secret, err
	}
	return "", usage("", "%s %s: it is empty", a.keyOf("--token-file", "token_file"), a.tokenFile)
}

// badServer names the flag in the error of a server that cannot be used.
func badServer(err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Kind != pawl.Invalid {
		return err
	}
	return usage(e.Hint, "--server: %s", err)
}
