package main

import (
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
	"github.com/pawl-dev/pawl/internal/inspect"
)

const serviceVerbLong = `

Several services may be named: each is told, and then waited for. What they wait for is
told on stderr, and each change of state on the way. --no-wait returns when the orders
are accepted; --timeout bounds the waiting, and what was ordered stands all the same.

Exit codes: 0 all are as was asked, 1 one has failed, 2 it is not said which, 3 one is
not there, 4 one is refused, 5 its state does not allow it, 6 no supervisor answers, 124
the time is up, 130 Ctrl-C. Of several, the highest.`

// A serviceVerb is an order to services.
type serviceVerb struct {
	verb         control.Verb
	reason, host string
	hasty        bool
	timeout      time.Duration
}

func newServiceVerb(a *app, verb control.Verb) *cobra.Command {
	v := &serviceVerb{verb: verb}
	about := map[control.Verb][2]string{
		control.Start: {"Start services, and wait until they are ready",
			"Have services run: what they need has to run first. One that has failed is tried anew,\nand one that waits for its next attempt is started at once."},
		control.Stop: {"Stop services, and wait until nothing of them is left",
			"Have services not run any more, until they are started again: the stop signal, and\nSIGKILL after the grace."},
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
	c.Flags().BoolVar(&v.hasty, "no-wait", false, "return when the orders are accepted")
	c.Flags().DurationVar(&v.timeout, "timeout", 2*time.Minute, "how long to wait; 0s is no limit")
	return c
}

// An errand is an order that was accepted.
type errand struct {
	*control.Found                 // as it was before
	last           control.Service // how it was seen last
	told           string          // the state that was told last
}

// do gives the orders, and waits for what becomes of them. The exit code is the
// highest of them all.
func (v *serviceVerb) do(ctx context.Context, a *app, names []string) error {
	var errands []*errand
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
		errands = append(errands, &errand{Found: s, last: s.Service})
	}
	if v.hasty {
		for _, e := range errands {
			fmt.Fprintf(a.stdout, "service %s was told to %s\n", e.ID, v.verb)
		}
	} else {
		errs = append(errs, v.await(ctx, a, errands)...)
	}
	return a.worst(errs)
}

// worst tells of errors, and returns one with the highest exit code of them.
func (a *app) worst(errs []error) error {
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) == 1 {
		return errs[0]
	}
	code := codeOK
	for _, err := range errs {
		code = max(code, complain(a.stderr, err))
	}
	if code != codeOK {
		return exit{code}
	}
	return nil
}

// lookAgain is how long services are not looked at while they are waited for.
const lookAgain = 100 * time.Millisecond

// await waits until every errand is done, has failed, or the time is up.
func (v *serviceVerb) await(ctx context.Context, a *app, errands []*errand) []error {
	within, cancel := ctx, context.CancelFunc(func() {})
	if v.timeout > 0 {
		within, cancel = context.WithTimeout(ctx, v.timeout)
	}
	defer cancel()
	var errs []error
	for {
		errands = slices.DeleteFunc(errands, func(e *errand) bool {
			done, err := v.look(within, a, e)
			if err != nil && within.Err() != nil {
				return false
			}
			errs = append(errs, err)
			return done
		})
		if len(errands) == 0 {
			return errs
		}
		if !inspect.Rest(within, lookAgain) {
			return append(errs, v.unfinished(ctx, a, errands))
		}
	}
}

// unfinished tells of errands that nobody waits for any longer.
func (v *serviceVerb) unfinished(ctx context.Context, a *app, errands []*errand) error {
	code := codeTimedOut
	if ctx.Err() != nil {
		code = codeInterrupted
	}
	for _, e := range errands {
		fmt.Fprintf(a.stderr, "service %s is %s; the order to %s stands\n", e.ID, e.last.State, v.verb)
		console.Say(a.stderr, "why", strings.Join(e.last.Why, "\n"))
	}
	return exit{code}
}

// look looks at one service, tells of its state if that is news, and reports
// whether there is nothing more to wait for.
func (v *serviceVerb) look(ctx context.Context, a *app, e *errand) (done bool, err error) {
	now, err := e.Client.Service(ctx, e.ID)
	if err != nil {
		return true, err
	}
	e.last = now
	done, failure := control.Judge(v.verb, &e.Service, &now)
	switch {
	case !done && now.State != e.told && (!now.Since.Equal(e.Since) || control.OnTheWay(&now)):
		e.told = now.State
		fmt.Fprintln(a.stderr, console.StateLine(console.In(now.Since, a.talkZone()), e.ID, now.State, console.ProgressOf(&now)))
		return false, nil
	case !done:
		return false, nil
	case failure != "":
		return true, wentWrong(&now, failure)
	}
	_, err = fmt.Fprintf(a.stdout, "service %s is %s\n", e.ID, now.State)
	return true, err
}

// wentWrong is the error of a service that does not become what was asked for.
func wentWrong(s *control.Service, why string) error {
	e := &pawl.Error{Kind: pawl.Internal, Message: fmt.Sprintf("service %s is %s: %s", s.ID, s.State, why)}
	if !s.StartedAt.IsZero() {
		e.Hint = "see what it printed with: pawl service logs " + s.ID
	}
	return e
}

const serviceReloadLong = `Have a supervisor read its file again, and tell what that changes: services that are
new are started, changed ones are started again if what changed is of the running
program, and those that are no longer in it are stopped. A file that is invalid changes
nothing (exit 2). HOST may be left out where only one supervisor runs.`

func newServiceReload(a *app) *cobra.Command {
	form, reason := formText, ""
	c := &cobra.Command{
		Use: "reload [HOST]", Short: "Have a supervisor read its file again", Long: serviceReloadLong,
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
			if form == formJSON {
				return console.JSON(a.stdout, differences)
			}
			return showDifferences(a, differences)
		},
	}
	bindReason(c, &reason)
	bindForm(c, &form, "a list of differences")
	return c
}

// supervisorOf returns the host that is named, or the only supervisor.
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
		return nil, a.nobody("")
	case 1:
		return hosts[0], nil
	}
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name())
	}
	return nil, usage("say which: "+console.Alternatives(names), "%d supervisors run", len(hosts))
}

func showDifferences(a *app, differences []control.Difference) error {
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
