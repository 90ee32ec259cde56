package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/remote"
)

// consent says on which other machine a command changes something, and asks for consent if the
// profile wants that.
func (a *app) consent(c *cobra.Command) error {
	if a.server == "" || !rowOf(c).writes {
		return nil
	}
	target := a.server
	if a.profile != "" {
		target = fmt.Sprintf("%s (%s)", a.profile, a.server)
	}
	if !remote.IsLocal(a.server) {
		fmt.Fprintf(a.stderr, "on %s\n", target)
	}
	if !a.confirm {
		return nil
	}
	return a.confirmed(c.Context(), pathOf(c)+" on "+target, fmt.Sprintf("%s on %s wants consent", c.CommandPath(), target))
}

// confirmed asks a person at the terminal for consent. absent says what wants it, if there is none.
func (a *app) confirmed(ctx context.Context, question, absent string) error {
	if a.yes {
		return nil
	}
	if f, ok := a.stdin.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return usage("add --yes to consent", "%s, and there is no terminal to ask for consent", absent)
	}
	switch yes, err := console.Confirm(ctx, a.stdin, a.stderr, question); {
	case err != nil:
		return exit{codeInterrupted}
	case yes:
		return nil
	}
	fmt.Fprintln(a.stderr, "no: nothing was changed")
	return exit{codeFailed}
}

// confirmedAll asks for consent to --all.
func (a *app) confirmedAll(ctx context.Context, what string) error {
	return a.confirmed(ctx, what, "--all would "+what)
}
