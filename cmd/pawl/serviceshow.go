package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
)

// A serviceCommand is one that shows something of one service.
type serviceCommand struct {
	host, form string
	check      func() error // nil: there is nothing more to check
	show       func(ctx context.Context, s *control.Found, form string) error
}

// bind completes a command. what says what its JSON is; "" is a command without.
func (v *serviceCommand) bind(a *app, c *cobra.Command, what string) *cobra.Command {
	c.Use = c.Name() + " SERVICE"
	c.Args, c.ValidArgsFunction = want(1, 1, "a SERVICE"), a.completeOneService
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := oneOf("output", v.form, formText, formJSON); err != nil {
			return err
		}
		if v.check != nil {
			if err := v.check(); err != nil {
				return err
			}
		}
		s, err := a.serviceOf(c.Context(), v.host, args[0])
		if err != nil {
			return err
		}
		return v.show(c.Context(), s, v.form)
	}
	a.bindHost(c, &v.host)
	v.form = formText
	if what != "" {
		c.Flags().StringVarP(&v.form, "output", "o", formText, "text, or json: "+what)
	}
	return c
}

func newServiceShow(a *app) *cobra.Command {
	v := &serviceCommand{show: a.showService}
	return v.bind(a, &cobra.Command{
		Use: "show", Short: "Show a service",
		Long:    "Show a service: its state and why, who wanted it so, its process, its probes and where its\nlog is.",
		Example: "  pawl service show web\n  pawl service show shop/web -o json",
	}, "the service")
}

func (a *app) showService(_ context.Context, s *control.Found, form string) error {
	if form == formJSON {
		return console.JSON(a.stdout, s.Service)
	}
	console.Service(a.stdout, &s.Service, fmt.Sprintf("%s (%s, pid %d)", s.Client.Name(), s.Client.About.Role, s.Client.About.PID), time.Now(), a.outZone())
	return nil
}

func newServiceWhy(a *app) *cobra.Command {
	v := &serviceCommand{show: a.whyService}
	return v.bind(a, &cobra.Command{
		Use: "why", Short: "Say why a service does not run, or is not ready",
		Long:    "Say why a service does not run, or runs and is not ready, and what would change it. Of one\nthat is as it should be it says so.",
		Example: "  pawl service why web\n  pawl service why web -o json",
	}, "its state, and a list of reasons")
}

// A serviceWhy is why a service is as it is, as JSON shows it.
type serviceWhy struct {
	ID     string   `json:"id"`
	Host   string   `json:"host"`
	State  string   `json:"state"`
	Wanted string   `json:"wanted"`
	Why    []string `json:"why"`

	Unrecorded *control.Unrecorded `json:"unrecorded,omitempty"`
}

func (a *app) whyService(_ context.Context, s *control.Found, form string) error {
	if form == formJSON {
		return console.JSON(a.stdout, serviceWhy{s.ID, s.Client.Name(), s.State, s.Wanted, append([]string{}, s.Why...), s.Unrecorded})
	}
	console.ServiceWhy(a.stdout, &s.Service)
	return nil
}

const serviceLogsLong = `Print what the program of a service has printed, on stdout: the last 100 lines, or as
many as --tail says; -1 is all that is kept. --follow goes on, over restarts too, until
Ctrl-C or the end of the supervisor. A terminal is shown colours, but nothing else that
would change it; to a file or a pipe everything goes as it was printed.`

func newServiceLogs(a *app) *cobra.Command {
	q := control.LogQuery{}
	v := &serviceCommand{}
	v.check = func() error {
		if q.Tail < -1 {
			return usage("", "--tail %d: want -1 or more; -1 is all", q.Tail)
		}
		return nil
	}
	v.show = func(ctx context.Context, s *control.Found, _ string) error {
		err := a.serviceLogs(ctx, s, q)
		if err == nil && q.Follow && ctx.Err() == nil {
			fmt.Fprintf(a.stderr, "%s %s has ended\n", s.Client.About.Role, s.Client.Name())
		}
		return err
	}
	c := v.bind(a, &cobra.Command{
		Use: "logs", Short: "Print what a service has printed", Long: serviceLogsLong,
		Example: "  pawl service logs web\n  pawl service logs web -n 20 -f",
	}, "")
	c.Flags().IntVarP(&q.Tail, "tail", "n", 100, "the last so many lines; -1 is all that is kept")
	c.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on until Ctrl-C")
	return c
}

// serviceLogs writes what a service has printed, and spares a terminal its commands.
func (a *app) serviceLogs(ctx context.Context, s *control.Found, q control.LogQuery) error {
	if a.width() == 0 {
		return s.Client.Logs(ctx, s.ID, q, a.stdout)
	}
	t := &console.Sanitizer{W: a.stdout, Sanitize: a.tame}
	return errors.Join(s.Client.Logs(ctx, s.ID, q, t), t.Flush())
}
