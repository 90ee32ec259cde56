package main

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/age"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
)

const tokenLong = `Make the tokens by which programs and people use a server, and revoke them.

A token has roles: viewer reads; operator also changes jobs, steps, schedules and workers;
admin also sets limits, withholds payload and makes tokens; worker runs steps. admin includes
all others. A token is for all workspaces, or for those that it names: to it, nothing else
exists.

The first token is made on the database itself, on a machine that reaches it. A server that
shares the database takes it at once. What a token does, the audit trail has under the name
token:NAME.`

func newToken(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "token", Short: "Let programs use a server", Long: tokenLong,
		Example: "  pawl token create ci --role operator --workspace builds --expires 90d\n  pawl token list\n  pawl token revoke ci --reason \"it leaked\"",
	})
	c.AddCommand(newTokenCreate(a), newTokenList(a), newTokenShow(a), newTokenRevoke(a), newTokenHistory(a))
	return c
}

const tokenCreateLong = `Make a token, and print its secret on the last line of stdout, or write it to the file that
--out names, which only you can read. The secret is stored nowhere and shown this once: the
database has its SHA-256.

With --certificate the token has no secret: whoever shows that certificate to a server with
--tls-client-ca is the token.

A NAME belongs to one active token. --expires is from now on, such as 12h or 90d; without it
the token lasts until it is revoked.`

func newTokenCreate(a *app) *cobra.Command {
	var plan pawl.TokenPlan
	var expires age.Age
	roles, form, reason, out, cert := []string(nil), formText, "", "", ""
	c := &cobra.Command{
		Use: "create NAME --role ROLE...", Short: "Make a token", Long: tokenCreateLong,
		Example: "  pawl token create ada --role admin\n  pawl token create ci --role operator --workspace builds --expires 90d --out ci.token\n  pawl token create grafana --role viewer -o json",
		Args:    want(1, 1, "a NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(roles) == 0 {
				return usage("usage: "+c.UseLine(), "%s needs a --role", c.CommandPath())
			}
			plan.Name = args[0]
			for _, r := range roles {
				plan.Roles = append(plan.Roles, pawl.Role(r))
			}
			if cert != "" && out != "" {
				return usage("", "--certificate and --out: a token with a certificate has no secret")
			}
			if cert != "" {
				var err error
				if plan.Certificate, err = certificateSum(cert); err != nil {
					return err
				}
			}
			if expires != 0 {
				plan.ExpiresAt = pawl.Timestamp(pawl.Micros(time.Now().Add(time.Duration(expires))))
			}
			return a.withNew(c.Context(), func(ctx context.Context, cl *client.Client) error {
				return a.createToken(ctx, cl, plan, reason, out, form)
			})
		},
	}
	c.Flags().StringArrayVar(&roles, "role", nil, "what it may do: viewer, operator, admin or worker; may be repeated")
	c.Flags().StringArrayVar(&plan.Workspaces, "workspace", nil, "a workspace that it is for; may be repeated; default all")
	c.Flags().Var(&expires, "expires", "how long it lasts, such as 12h or 90d; at least 1h; default: until it is revoked")
	c.Flags().StringVar(&cert, "certificate", "", "file with the certificate, in PEM, whose owner is to be the token; it then has no secret")
	bindOut(c, &out)
	bindReason(c, &reason)
	bindForm(a, c, &form, "{id, .., secret}")
	return c
}

// createToken makes a token and shows its secret, unless it has a certificate instead.
func (a *app) createToken(ctx context.Context, cl *client.Client, plan pawl.TokenPlan, reason, out, form string) error {
	var t pawl.NewToken
	create := func() (err error) {
		t, err = cl.Tokens.Create(ctx, plan, a.change(reason))
		return err
	}
	if plan.Certificate == "" {
		return a.withSecret(secret{"token " + plan.Name, &t.ID, &t.Secret, &t}, out, form, create)
	}
	if err := create(); err != nil {
		return err
	}
	return a.show(form, t, func() error {
		_, err := fmt.Fprintf(a.stdout, "token %s (%s) is made, for who shows the certificate with the SHA-256 %s\n", plan.Name, t.ID, plan.Certificate)
		return err
	})
}

// certificateSum returns the SHA-256 of the first certificate in a file.
func certificateSum(path string) (string, error) {
	text, err := files.Read(path, maxCA)
	if err != nil {
		return "", err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return fmt.Sprintf("%x", sha256.Sum256(block.Bytes)), nil
		}
	}
	return "", usage("", "--certificate %s: want a certificate in PEM", path)
}

func newTokenList(a *app) *cobra.Command {
	form, ended, sessions := formText, false, false
	c := &cobra.Command{
		Use: "list", Short: "List tokens",
		Long:    "List the active tokens, newest first; --all includes those that were revoked or have\nexpired, and --sessions those that browsers have since somebody signed in. WORKSPACES is empty\nfor a token of all workspaces.",
		Example: "  pawl token list\n  pawl token list --all -o json",
		Args:    want(0, 0, "no argument"),
		RunE: a.on(func(ctx context.Context, cl *client.Client, _ []string) error {
			rows := console.Tokens(a.stdout, form == formJSON, a.outZone())
			err := cl.Tokens.List(ctx, ended, func(v *pawl.TokenView) error {
				if v.SessionOf != nil && !sessions {
					return nil
				}
				return rows.Add(v)
			})
			if err != nil {
				return err
			}
			if rows.N == 0 && form != formJSON {
				fmt.Fprintln(a.stderr, "no tokens")
				return nil
			}
			return rows.End()
		}),
	}
	c.Flags().BoolVar(&sessions, "sessions", false, "the sessions of browsers, too")
	c.Flags().BoolVar(&ended, "all", false, "those that were revoked or have expired, too")
	bindForm(a, c, &form, "a list of tokens")
	return c
}

// onToken runs f on the token that the argument of a command names.
func (a *app) onToken(f func(ctx context.Context, cl *client.Client, id pawl.ID) error) func(*cobra.Command, []string) error {
	return a.on(func(ctx context.Context, cl *client.Client, args []string) error {
		id, err := cl.Tokens.Find(ctx, args[0])
		if err != nil {
			return err
		}
		return f(ctx, cl, id)
	})
}

func newTokenShow(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show TOKEN", Short: "Show a token",
		Long:    "Show what a token may do, and until when. TOKEN is an id, or the name of a token.",
		Example: "  pawl token show ci\n  pawl token show ci -o json",
		Args:    want(1, 1, "a TOKEN"), ValidArgsFunction: a.completeTokens,
		RunE: a.onToken(func(ctx context.Context, cl *client.Client, id pawl.ID) error {
			v, err := cl.Tokens.Get(ctx, id)
			if err != nil {
				return err
			}
			return a.show(form, v, func() error { console.Token(a.stdout, v, a.outZone()); return nil })
		}),
	}
	bindForm(a, c, &form, "the token")
	return c
}

func newTokenRevoke(a *app) *cobra.Command {
	form, reason := formText, ""
	c := &cobra.Command{
		Use: "revoke TOKEN", Short: "End a token",
		Long:    "Revoke a token. Servers on the database refuse it after at most 5 seconds. A token that has\nended cannot be revoked (exit 5). TOKEN is an id, or the name of a token.",
		Example: "  pawl token revoke ci --reason \"it leaked\"",
		Args:    want(1, 1, "a TOKEN"), ValidArgsFunction: a.completeTokens,
		RunE: a.onToken(func(ctx context.Context, cl *client.Client, id pawl.ID) error {
			r, err := cl.Tokens.Revoke(ctx, id, a.change(reason))
			if err != nil {
				return err
			}
			return a.show(form, r, func() error {
				_, err := fmt.Fprintf(a.stdout, "token %s is revoked\n", r.ID)
				return err
			})
		}),
	}
	bindReason(c, &reason)
	bindForm(a, c, &form, "what it did")
	return c
}

func newTokenHistory(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "history TOKEN", Short: "List the moves of a token",
		Long:    "List the moves of a token, oldest first: who made it and revoked it, when, and why. TOKEN is\nan id, or the name of a token.",
		Example: "  pawl token history ci\n  pawl token history ci -o json",
		Args:    want(1, 1, "a TOKEN"), ValidArgsFunction: a.completeTokens,
		RunE: a.onToken(func(ctx context.Context, cl *client.Client, id pawl.ID) error {
			rows := console.WorkerHistory(a.stdout, form == formJSON, a.outZone())
			if err := cl.Tokens.History(ctx, id, func(t pawl.Transition) error { return rows.Add(&t) }); err != nil {
				return err
			}
			return rows.End()
		}),
	}
	bindForm(a, c, &form, "a list of moves")
	return c
}

// completeTokens offers the names of active tokens to the shell.
func (a *app) completeTokens(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completedFirst(c, args, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		return cl.Tokens.List(ctx, false, func(v *pawl.TokenView) error {
			if v.SessionOf != nil {
				return nil
			}
			offer(v.Name, fmt.Sprint(slices.Sorted(slices.Values(v.Roles))))
			return nil
		})
	})
}
