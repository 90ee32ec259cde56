package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
)

func newServiceHistory(a *app) *cobra.Command {
	v := &serviceCommand{show: func(ctx context.Context, s *control.Found, form string) error {
		moves, err := s.Client.History(ctx, s.ID)
		if err != nil {
			return err
		}
		if form == formJSON {
			return console.JSON(a.stdout, moves)
		}
		return console.Table(a.stdout, console.ServiceHistory(moves, a.outZone()))
	}}
	return v.bind(a, &cobra.Command{
		Use: "history", Short: "Show every move of a service",
		Long:    "Show every move of a service, over the restarts of its supervisor too: when, from which\nstate to which or what became of an action, by which event, who, and why. In JSON the\nstates are those of the table \"service\" (pawl machine show service), and the\nservice's own state is in \"metadata\".",
		Example: "  pawl service history web\n  pawl service history web -o json",
	}, "a list of moves")
}
