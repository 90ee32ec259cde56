package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/remote"
)

const serviceLong = `Show the services of the supervisors and servers of this user on this machine, and give
them orders. The sockets of these processes are in $PAWL_RUNTIME_DIR, else in
$XDG_RUNTIME_DIR/pawl, else in pawl-UID in the folder for temporary files; only their own
user can use them.

With --server they are those of that server's machine and user.

A SERVICE is an id, or HOST/ID if several supervisors have a service of that id. --host
limits the command to one of them.

Exit codes: 2 several services match, 3 none matches, 4 not allowed, 5 the state of the
service does not allow it, 6 no supervisor runs, or it does not respond.`

func newService(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "service", Short: "Show, start and stop the services of supervisors", Long: serviceLong,
		Example: "  pawl service list\n  pawl service why web\n  pawl service restart web --reason \"new certificate\"\n  pawl service logs web -f",
	})
	c.AddCommand(newServiceList(a), newServiceShow(a), newServiceWhy(a), newServiceLogs(a), newServiceHistory(a),
		newServiceVerb(a, control.Start), newServiceVerb(a, control.Stop), newServiceVerb(a, control.Restart), newServiceReload(a))
	return c
}

const serviceListLong = `List the services of all running supervisors and servers of this user, by host and id.
SINCE is when a service entered its state. STARTS is how often its program was started
since its supervisor was. NOTE is why it does not run, or the status that it reports; on
a terminal it is cut to the width, and "pawl service why" shows all of it.

If no supervisor runs, that is not an error.`

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
	bindForm(a, c, &form, "a list of services")
	return c
}

// services lists the services of all hosts that reply. It ends with the error of a host that
// does not.
func (a *app) services(ctx context.Context, host, form string) error {
	hosts, silent := a.hosts(ctx, host)
	if len(hosts) == 0 && silent == nil && host != "" {
		return a.noHost(host)
	}
	all, err := control.ServicesOf(ctx, hosts)
	silent = errors.Join(silent, err)
	switch err = nil; {
	case form == formJSON:
		list := make([]control.Service, 0, len(all))
		for i := range all {
			list = append(list, all[i].Service)
		}
		err = console.JSON(a.stdout, list)
	case len(all) > 0:
		err = console.Table(a.stdout, console.Fit(console.ServiceRows(all, a.outZone()), a.width()))
	case silent == nil && len(hosts) == 0:
		fmt.Fprintln(a.stderr, "no supervisor runs "+a.where())
		console.Say(a.stderr, "hint", console.Hint(a.noHost("")))
	case silent == nil:
		fmt.Fprintln(a.stderr, "no services")
	}
	return cmp.Or(err, silent)
}

// hosts returns the living hosts of this machine, or of that of the server, or the named one; see
// control.Alive.
func (a *app) hosts(ctx context.Context, only string) (hosts []*control.Client, err error) {
	if a.server != "" {
		bad := a.onRemote(ctx, func(e *remote.Engine) error {
			hosts, err = control.Via(ctx, e, only)
			return nil
		})
		return hosts, errors.Join(bad, err)
	}
	return control.Alive(ctx, control.Dir(a.getenv), only)
}

// where says which hosts are looked at.
func (a *app) where() string {
	if a.server != "" {
		return "on the machine of the server"
	}
	return "in " + control.Dir(a.getenv)
}

const listHint = "list what runs with: pawl service list"

// noHost returns the error of a command that needs a host while none runs.
func (a *app) noHost(only string) error {
	e := &pawl.Error{Kind: pawl.Unavailable, Message: "no supervisor runs " + a.where(), Hint: "start one with: pawl supervise FILE"}
	if only != "" {
		e.Message, e.Hint = fmt.Sprintf("no supervisor %.100q runs", only), listHint
	}
	return e
}

// someHosts returns at least one host, or an error. It reports hosts that do not reply.
func (a *app) someHosts(ctx context.Context, only string) ([]*control.Client, error) {
	all, err := a.hosts(ctx, only)
	switch {
	case len(all) == 0 && err != nil:
		return nil, err
	case len(all) == 0:
		return nil, a.noHost(only)
	}
	if err != nil && only == "" {
		complain(a.stderr, err)
	}
	return all, nil
}

// serviceOf reads the SERVICE of a command line: an id, or HOST/ID.
func (a *app) serviceOf(ctx context.Context, only, text string) (*control.Found, error) {
	hosts, err := a.someHosts(ctx, only)
	if err != nil {
		return nil, err
	}
	s, err := control.Find(ctx, hosts, text)
	var no *control.MatchError
	switch {
	case !errors.As(err, &no):
		return s, err
	case !no.None:
		return nil, usage("say which: "+console.Alternatives(no.Names), "%s", no)
	}
	e := &pawl.Error{Kind: pawl.NotFound, Message: no.Error(), Hint: "list the services with: pawl service list"}
	if near := nearest(text, no.Names); near != "" {
		e.Hint = "did you mean: " + near
	}
	return nil, e
}

// bindHost adds the flag --host.
func (a *app) bindHost(c *cobra.Command, host *string) {
	c.Flags().StringVar(host, "host", "", "only services of this supervisor or server")
	_ = c.RegisterFlagCompletionFunc("host", func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.completeHosts(c, nil, begun)
	}) // it fails only for a flag that does not exist
}

// completeHosts offers the living hosts to the shell.
func (a *app) completeHosts(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	hosts, _ := a.hosts(c.Context(), "") // those that reply
	var names []string
	for _, h := range hosts {
		if len(args) == 0 && strings.HasPrefix(h.Name(), begun) {
			names = append(names, h.Name()+"\t"+h.About.Role)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeServices offers services that are not yet on the command line, as HOST/ID if there
// are several hosts.
func (a *app) completeServices(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	only := ""
	if f := c.Flags().Lookup("host"); f != nil {
		only = f.Value.String()
	}
	hosts, _ := a.hosts(c.Context(), only)
	all, _ := control.ServicesOf(c.Context(), hosts)
	var words []string
	for i, word := range control.Names(all) {
		if strings.HasPrefix(word, begun) && !slices.Contains(args, word) {
			words = append(words, word+"\t"+all[i].State)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeOneService offers services for a command that takes one.
func (a *app) completeOneService(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeServices(c, args, begun)
}

// A serviceCommand is a command that shows something about one service.
type serviceCommand struct {
	host, form string
	check      func() error // nil: no further check
	show       func(ctx context.Context, s *control.Found, form string) error
}

// bind completes a command. what describes its JSON; it is "" for a command without JSON.
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
		Long:    "Show a service: its state and why, who ordered it, its process, its probes, and the path\nof its log.",
		Example: "  pawl service show web\n  pawl service show shop/web -o json",
	}, "the service")
}

func (a *app) showService(_ context.Context, s *control.Found, form string) error {
	return a.show(form, s.Service, func() error {
		console.Service(a.stdout, &s.Service, fmt.Sprintf("%s (%s, pid %d)", s.Client.Name(), s.Client.About.Role, s.Client.About.PID), time.Now(), a.outZone())
		return nil
	})
}

func newServiceWhy(a *app) *cobra.Command {
	v := &serviceCommand{show: a.whyService}
	return v.bind(a, &cobra.Command{
		Use: "why", Short: "Say why a service does not run, or is not ready",
		Long:    "Say why a service does not run, or is not ready, and what would change that. If all is\nwell, the command says so.",
		Example: "  pawl service why web\n  pawl service why web -o json",
	}, "its state, and a list of reasons")
}

func (a *app) whyService(_ context.Context, s *control.Found, form string) error {
	return a.show(form, s.Reasons(), func() error {
		console.ServiceWhy(a.stdout, &s.Service)
		return nil
	})
}

const serviceLogsLong = `Print the output of the program of a service on stdout: the last 100 lines, or as many as
--tail says; -1 is all that is kept. --follow continues, across restarts, until Ctrl-C or
the end of the supervisor. A terminal gets colours, but no other control sequences; a
file or a pipe gets the output unchanged.`

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
		Use: "logs", Short: "Print the output of a service", Long: serviceLogsLong,
		Example: "  pawl service logs web\n  pawl service logs web -n 20 -f",
	}, "")
	c.Flags().IntVarP(&q.Tail, "tail", "n", 100, "how many of the last lines to print; -1 is all that is kept")
	c.Flags().BoolVarP(&q.Follow, "follow", "f", false, "continue until Ctrl-C")
	return c
}

// serviceLogs writes the output of a service, without terminal commands if it goes to a
// terminal.
func (a *app) serviceLogs(ctx context.Context, s *control.Found, q control.LogQuery) error {
	if a.width() == 0 {
		return s.Client.Logs(ctx, s.ID, q, a.stdout)
	}
	t := &console.Sanitizer{W: a.stdout, Sanitize: a.sanitize}
	return errors.Join(s.Client.Logs(ctx, s.ID, q, t), t.Flush())
}

func newServiceHistory(a *app) *cobra.Command {
	v := &serviceCommand{show: func(ctx context.Context, s *control.Found, form string) error {
		moves, err := s.Client.History(ctx, s.ID)
		if err != nil {
			return err
		}
		return a.show(form, moves, func() error { return console.Table(a.stdout, console.ServiceHistory(moves, a.outZone())) })
	}}
	return v.bind(a, &cobra.Command{
		Use: "history", Short: "Show every move of a service",
		Long:    "Show every move of a service, across restarts of its supervisor: when, from which state to\nwhich, or how an action ended, by which event, who, and why. In JSON the states are those\nof the table \"service\" (pawl machine show service), and the service's own state is in\n\"metadata\".",
		Example: "  pawl service history web\n  pawl service history web -o json",
	}, "a list of moves")
}

const serviceVerbLong = `

Several services can be named: each gets its order, then the command waits for all of
them. It prints on stderr what it waits for, and each change of state. --no-wait returns
when the orders are accepted. --timeout limits the wait; the orders stand after it.

Exit codes: 0 all services did as ordered, 1 one has failed, 2 several services match, 3
none matches, 4 not allowed, 5 the state of a service does not allow it, 6 no supervisor
responds, 124 the timeout has passed, 130 Ctrl-C. Of several codes it is the highest.`

// A serviceVerb is an order to services.
type serviceVerb struct {
	verb         control.Verb
	reason, host string
	noWait       bool
	timeout      time.Duration
}

func newServiceVerb(a *app, verb control.Verb) *cobra.Command {
	v := &serviceVerb{verb: verb}
	about := map[control.Verb][2]string{
		control.Start: {"Start services, and wait until they are ready",
			"Start services, after the services that they need. A service that has failed is tried\nagain, and one that waits for its next attempt is started at once."},
		control.Stop: {"Stop services, and wait until nothing of them is left",
			"Stop services until they are started again: with the stop signal, and with SIGKILL after\nthe grace."},
		control.Restart: {"Stop services and start them again",
			"Stop services as \"pawl service stop\" does, and start them again."},
	}[verb]
	word := string(verb)
	c := &cobra.Command{
		Use: word + " SERVICE...", Short: about[0], Long: about[1] + serviceVerbLong,
		Example: fmt.Sprintf("  pawl service %s web\n  pawl service %s web worker --timeout 30s --reason \"new disk\"", word, word),
		Args:    want(1, -1, "a SERVICE"), ValidArgsFunction: a.completeServices,
		RunE: func(c *cobra.Command, args []string) error {
			if v.timeout < 0 {
				return usage("", "--timeout %s: want 0s or more; 0s is no limit", v.timeout)
			}
			return v.do(c.Context(), a, unique(args))
		},
	}
	a.bindHost(c, &v.host)
	bindReason(c, &v.reason)
	c.Flags().BoolVar(&v.noWait, "no-wait", false, "return when the orders are accepted")
	c.Flags().DurationVar(&v.timeout, "timeout", 2*time.Minute, "how long to wait; 0s is no limit")
	return c
}

// do gives the orders, and waits for their results. It returns the highest exit code.
func (v *serviceVerb) do(ctx context.Context, a *app, names []string) error {
	var errands []*control.Errand
	var errs []error
	for _, name := range names {
		s, err := a.serviceOf(ctx, v.host, name)
		if err == nil {
			_, err = s.Client.Order(ctx, s.ID, control.Order{Verb: v.verb, Change: a.change(v.reason)})
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errands = append(errands, &control.Errand{Found: s, Last: s.Service})
	}
	if v.noWait {
		for _, e := range errands {
			fmt.Fprintf(a.stdout, "service %s was told to %s\n", e.ID, v.verb)
		}
	} else {
		errs = append(errs, v.await(ctx, a, errands)...)
	}
	return a.worst(errs)
}

// worst returns the only error of a list. It prints several, and returns the highest of their
// exit codes.
func (a *app) worst(errs []error) error {
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) == 1 {
		return errs[0]
	}
	return all(a, errs, func(err error) error { return err })
}

// await waits until every errand is done or has failed, or the time is up.
func (v *serviceVerb) await(ctx context.Context, a *app, errands []*control.Errand) (errs []error) {
	within, cancel := ctx, context.CancelFunc(func() {})
	if v.timeout > 0 {
		within, cancel = context.WithTimeout(ctx, v.timeout)
	}
	defer cancel()
	left := control.Await(within, v.verb, errands, func(e *control.Errand) {
		fmt.Fprintln(a.stderr, console.StateLine(console.In(e.Last.Since, a.talkZone()), e.ID, e.Last.State, console.ProgressOf(&e.Last)))
	}, func(e *control.Errand) {
		err := e.Err
		switch {
		case err == nil && e.Failure != "":
			err = wentWrong(&e.Last, e.Failure)
		case err == nil:
			_, err = fmt.Fprintf(a.stdout, "service %s is %s\n", e.ID, e.Last.State)
		}
		errs = append(errs, err)
	})
	if len(left) > 0 {
		errs = append(errs, v.unfinished(ctx, a, left))
	}
	return errs
}

// unfinished describes the state of the errands at the end of the wait.
func (v *serviceVerb) unfinished(ctx context.Context, a *app, errands []*control.Errand) error {
	code := codeTimedOut
	if ctx.Err() != nil {
		code = codeInterrupted
	}
	for _, e := range errands {
		fmt.Fprintf(a.stderr, "service %s is %s; the order to %s stands\n", e.ID, e.Last.State, v.verb)
		console.Say(a.stderr, "why", strings.Join(console.WhyOf(&e.Last), "\n"))
	}
	return exit{code}
}

// wentWrong returns the error of a service that does not reach the requested state.
func wentWrong(s *control.Service, why string) error {
	e := &pawl.Error{Kind: pawl.Internal, Message: fmt.Sprintf("service %s is %s: %s", s.ID, s.State, why)}
	if !s.StartedAt.IsZero() {
		e.Hint = "see what it printed with: pawl service logs " + s.ID
	}
	return e
}

const serviceReloadLong = `Tell a supervisor to read its file again, and print what that changes. New services are
started. Changed services are started again if the change concerns the running program.
Services that are no longer in the file are stopped. An invalid file changes nothing
(exit 2). HOST can be left out if only one supervisor runs.`

func newServiceReload(a *app) *cobra.Command {
	form, reason := formText, ""
	c := &cobra.Command{
		Use: "reload [HOST]", Short: "Make a supervisor read its file again", Long: serviceReloadLong,
		Example: "  pawl service reload\n  pawl service reload shop -o json",
		Args:    want(0, 1, "a HOST"), ValidArgsFunction: a.completeHosts,
		RunE: func(c *cobra.Command, args []string) error {
			host, err := a.supervisorOf(c.Context(), args)
			if err != nil {
				return err
			}
			differences, err := host.Reload(c.Context(), a.change(reason))
			if err != nil {
				return err
			}
			return a.show(form, differences, func() error { return showChanges(a, differences) })
		},
	}
	bindReason(c, &reason)
	bindForm(a, c, &form, "a list of differences")
	return c
}

// supervisorOf returns the named host, or the only supervisor.
func (a *app) supervisorOf(ctx context.Context, args []string) (*control.Client, error) {
	only := strings.Join(args, "")
	hosts, err := a.someHosts(ctx, only)
	if err != nil {
		return nil, err
	}
	if only == "" {
		hosts = slices.DeleteFunc(hosts, func(c *control.Client) bool { return c.About.Role != roleSupervisor })
	}
	switch len(hosts) {
	case 0:
		return nil, a.noHost("")
	case 1:
		return hosts[0], nil
	}
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name())
	}
	return nil, usage("say which: "+console.Alternatives(names), "%d supervisors run", len(hosts))
}

func showChanges(a *app, differences []control.Difference) error {
	if len(differences) == 0 {
		fmt.Fprintln(a.stderr, "nothing has changed")
	}
	var err error
	for _, d := range differences {
		_, e := fmt.Fprintln(a.stdout, d)
		err = errors.Join(err, e)
	}
	return err
}
