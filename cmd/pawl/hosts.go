package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
)

// hosts returns the hosts that live, or the one that is named. The error is about
// those that live and do not answer; there may be others all the same.
func (a *app) hosts(ctx context.Context, only string) ([]*control.Client, error) {
	all, err := control.Hosts(ctx, control.Dir(a.getenv))
	if only != "" {
		all = slices.DeleteFunc(all, func(c *control.Client) bool { return c.Name() != only })
	}
	return all, err
}

// nobody is the error of hosts that are asked for something while none runs.
func (a *app) nobody(only string) error {
	e := &pawl.Error{Kind: pawl.Unavailable, Message: "no supervisor runs in " + control.Dir(a.getenv), Hint: "start one with: pawl supervise FILE"}
	if only != "" {
		e.Message, e.Hint = fmt.Sprintf("no supervisor %.100q runs", only), "list what runs with: pawl service list"
	}
	return e
}

// someHosts returns one host at least. Those that do not answer are told of.
func (a *app) someHosts(ctx context.Context, only string) ([]*control.Client, error) {
	all, err := a.hosts(ctx, only)
	switch {
	case len(all) == 0 && err != nil:
		return nil, err
	case len(all) == 0:
		return nil, a.nobody(only)
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
	all, err := control.ServicesOf(ctx, hosts)
	var names []string
	switch fit := control.Match(all, text); {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		for _, f := range fit {
			names = append(names, f.Name())
		}
		return nil, usage("say which: "+console.Alternatives(names), "service %s: %d supervisors have one of that name", text, len(fit))
	case err != nil:
		return nil, err
	}
	for i := range all {
		names = append(names, all[i].ID)
	}
	e := &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no service %.100q", text), Hint: "list the services with: pawl service list"}
	if near := nearest(text, names); near != "" {
		e.Hint = "did you mean: " + near
	}
	return nil, e
}

// bindHost adds the flag --host.
func (a *app) bindHost(c *cobra.Command, host *string) {
	c.Flags().StringVar(host, "host", "", "only services of this supervisor or server")
	_ = c.RegisterFlagCompletionFunc("host", func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.completeHosts(c, nil, begun)
	}) // it fails for a flag that does not exist
}

// completeHosts offers the hosts that live to the shell.
func (a *app) completeHosts(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	hosts, _ := a.hosts(c.Context(), "") // those that answer
	var names []string
	for _, h := range hosts {
		if len(args) == 0 && strings.HasPrefix(h.Name(), begun) {
			names = append(names, h.Name()+"\t"+h.About.Role)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeServices offers services to the shell that have not been named yet:
// those of several hosts as HOST/ID.
func (a *app) completeServices(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	only := ""
	if f := c.Flags().Lookup("host"); f != nil {
		only = f.Value.String()
	}
	hosts, _ := a.hosts(c.Context(), only)
	all, _ := control.ServicesOf(c.Context(), hosts)
	several := map[string]int{}
	for i := range all {
		several[all[i].ID]++
	}
	var words []string
	for i := range all {
		word := all[i].ID
		if several[word] > 1 {
			word = all[i].Name()
		}
		if strings.HasPrefix(word, begun) && !slices.Contains(args, word) {
			words = append(words, word+"\t"+all[i].State)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeOneService offers services where one is wanted.
func (a *app) completeOneService(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeServices(c, args, begun)
}
