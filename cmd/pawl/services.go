package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
)

const serviceLong = `Look at the services of the supervisors and servers of this user on this machine, and
tell them what to do. They answer on sockets in $PAWL_RUNTIME_DIR, else in
$XDG_RUNTIME_DIR/pawl, else in pawl-UID in the folder for temporary files; only their
own user gets there.

A SERVICE is an id, or HOST/ID where several supervisors have one of that id. --host
narrows it to one of them.

Exit codes: 2 it is not said which service, 3 there is none like that, 4 it is refused,
5 its state does not allow it, 6 no supervisor runs, or it does not answer.`

func newService(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "service", Short: "Look at the services of supervisors, and start or stop them", Long: serviceLong,
		Example: "  pawl service list\n  pawl service why web\n  pawl service restart web --reason \"new certificate\"\n  pawl service logs web -f",
	})
	c.AddCommand(newServiceList(a), newServiceShow(a), newServiceWhy(a), newServiceLogs(a), newServiceHistory(a),
		newServiceVerb(a, control.Start), newServiceVerb(a, control.Stop), newServiceVerb(a, control.Restart), newServiceReload(a))
	return c
}

const serviceListLong = `List the services of all supervisors and servers of this user that run, by host and id.
SINCE is when it came into its state; STARTS is how often its program was started
since its supervisor was; NOTE says why it does not run, or what it says of
itself; on a terminal it is cut to the width, and "pawl service why" says it in full.
That none runs is no error.`

func newServiceList(a *app) *cobra.Command {
	form, host := formText, ""
	c := &cobra.Command{
		Use: "list", Short: "List services", Long: serviceListLong,
		Example: "  pawl service list\n  pawl service list --host shop -o json",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.services(c.Context(), host, form)
		},
	}
	a.bindHost(c, &host)
	bindForm(c, &form, "a list of services")
	return c
}

// services lists what answers, and ends with the error of what does not.
func (a *app) services(ctx context.Context, host, form string) error {
	hosts, deaf := a.hosts(ctx, host)
	if len(hosts) == 0 && deaf == nil && host != "" {
		return a.nobody(host)
	}
	all, err := control.ServicesOf(ctx, hosts)
	deaf = errors.Join(deaf, err)
	switch err = nil; {
	case form == formJSON:
		list := make([]control.Service, 0, len(all))
		for i := range all {
			list = append(list, all[i].Service)
		}
		err = console.JSON(a.stdout, list)
	case len(all) > 0:
		err = console.Table(a.stdout, console.Fit(console.ServiceRows(all, a.outZone()), a.width()))
	case deaf == nil && len(hosts) == 0:
		fmt.Fprintln(a.stderr, "no supervisor runs in "+control.Dir(a.getenv))
		console.Say(a.stderr, "hint", hintOf(a.nobody("")))
	case deaf == nil:
		fmt.Fprintln(a.stderr, "no services")
	}
	if err != nil {
		return err
	}
	return deaf
}
