package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/workflow"
)

const workflowLong = `Register workflows under their names, and show them.

A registered workflow belongs to a workspace. Each change of its file is a new version,
counted from 1, which never changes. NAME@VERSION names one version, NAME the newest. A
job keeps the version that it was created from; see "pawl job move".`

func newWorkflow(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "workflow", Short: "Register and show workflows", Long: workflowLong,
		Example: "  pawl workflow register nightly.yaml\n  pawl workflow show nightly@3\n  pawl submit nightly@3",
	})
	c.AddCommand(newWorkflowRegister(a), newWorkflowList(a), newWorkflowShow(a), newWorkflowVersions(a))
	return c
}

// listVersions writes the versions that read passes on, as a table or as JSON. It writes no
// empty table.
func (a *app) listVersions(ctx context.Context, cl *client.Client, form string, read func(func(*pawl.Version) error) error) (n int, err error) {
	rows := console.Versions(a.stdout, form == formJSON, a.outZone())
	err = read(func(v *pawl.Version) error {
		r, err := inspect.VersionOf(ctx, cl, v)
		if err != nil {
			return err
		}
		return rows.Add(r)
	})
	if err != nil {
		return rows.N, err
	}
	return rows.N, rows.End()
}

const registerLong = `Register workflow files, each as the next version of the workflow of its name. A file
with the same content and folder as the newest version adds no version. Files of child
workflows become part of the version. As a child of a "pawl run" job, the workflow runs
in the folder of its file. If one of the files has a mistake, nothing is registered.`

func newWorkflowRegister(a *app) *cobra.Command {
	form, reason := formText, ""
	c := &cobra.Command{
		Use: "register FILE...", Short: "Register workflow files", Long: registerLong,
		Example: "  pawl workflow register nightly.yaml --reason \"load before the report\"\n  pawl workflow register workflows/*.yaml -o json",
		Args:    want(1, -1, "a FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.register(c.Context(), args, reason, form)
		},
	}
	bindReason(c, &reason)
	bindForm(a, c, &form, "a list of versions")
	return c
}

func (a *app) register(ctx context.Context, paths []string, reason, form string) error {
	var defs []*workflow.Definition
	var dirs []string
	if err := all(a, paths, func(path string) error {
		def, err := files.ReadWorkflow(path)
		if err != nil {
			return err
		}
		dir, err := files.FolderOf(path)
		defs, dirs = append(defs, def), append(dirs, dir)
		return err
	}); err != nil {
		return err
	}
	return a.withNew(ctx, func(ctx context.Context, cl *client.Client) error {
		list := make([]*inspect.Registered, 0, len(defs))
		for i, def := range defs {
			v, made, err := cl.Workflows.Register(ctx, def, dirs[i], a.change(reason))
			if err != nil {
				return err
			}
			r, err := inspect.VersionOf(ctx, cl, v)
			if err != nil {
				return err
			}
			r.Made = &made
			list = append(list, r)
			if form == formText {
				fmt.Fprintf(a.stdout, "%s@%d %s (%s)\n", r.Name, r.Version, map[bool]string{true: "registered", false: "unchanged"}[made], r.Hash)
			}
		}
		if form == formJSON {
			return console.JSON(a.stdout, list)
		}
		return nil
	})
}

func newWorkflowList(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "list", Short: "List registered workflows",
		Long:    "List the registered workflows of the workspace by name, each with its newest\nversion.",
		Example: "  pawl workflow list\n  pawl workflow list -o json",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error {
				n, err := a.listVersions(ctx, cl, form, func(f func(*pawl.Version) error) error {
					return cl.Workflows.List(ctx, f)
				})
				if err == nil && n == 0 && form == formText {
					fmt.Fprintln(a.stderr, "no workflow is registered in workspace "+a.workspace)
				}
				return err
			})
		},
	}
	bindForm(a, c, &form, "a list of versions")
	return c
}

func newWorkflowVersions(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "versions NAME", Short: "List the versions of a workflow",
		Long:    "List the versions of a registered workflow, newest first: when each was\nregistered, by whom and why.",
		Example: "  pawl workflow versions nightly",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeWorkflows,
		RunE: func(c *cobra.Command, args []string) error {
			name, version, err := workflow.ParseReference(args[0])
			if err != nil {
				return err
			}
			if version != 0 {
				return usage("show one version with: pawl workflow show "+args[0], "%s: want a NAME, without a version", args[0])
			}
			return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error {
				_, err := a.listVersions(ctx, cl, form, func(f func(*pawl.Version) error) error {
					return cl.Workflows.Versions(ctx, name, f)
				})
				return err
			})
		},
	}
	bindForm(a, c, &form, "a list of versions")
	return c
}

func newWorkflowShow(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show NAME[@VERSION]", Short: "Show a registered workflow",
		Long:    "Show a version of a registered workflow, by default the newest: its steps by level, and\nwho registered it, when and why. With -o json it is the definition, with its defaults\nwritten out.",
		Example: "  pawl workflow show nightly\n  pawl workflow show nightly@3 -o json",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeWorkflows,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, "mermaid", formJSON); err != nil {
				return err
			}
			return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error {
				v, def, err := cl.Workflows.Get(ctx, args[0])
				switch {
				case err != nil:
					return err
				case form != formText:
					return a.plan(def, form)
				}
				console.Version(a.stdout, v, def, a.outZone())
				return nil
			})
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text; mermaid: a flowchart; json: the definition")
	return c
}

// runnable reads the file of "pawl run", which takes nothing else.
func runnable(path string) (*workflow.Definition, error) {
	def, err := files.ReadWorkflow(path)
	if _, _, fault := workflow.ParseReference(path); fault == nil && pawl.KindOf(err) == pawl.NotFound {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: err.Error(), Hint: "pawl run takes a FILE; a registered workflow is run with: pawl submit " + console.Shell(path)}
	}
	return def, err
}

// completeWorkflows offers the registered workflows to the shell.
func (a *app) completeWorkflows(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completedFirst(c, args, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		return cl.Workflows.List(ctx, func(v *pawl.Version) error {
			offer(v.Name, fmt.Sprintf("version %d", v.Version))
			return nil
		})
	})
}
