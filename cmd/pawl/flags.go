package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
)

// bindForm adds the flag --output, with its check, to a command that writes text or JSON. What
// it writes as JSON is also shown as YAML, or by names.
func bindForm(a *app, c *cobra.Command, form *string, what string) {
	c.Flags().StringVarP(form, "output", "o", formText, "text (or table), yaml, name, or json: "+what)
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := oneOf("output", *form, formText, formTable, formJSON, formYAML, formName); err != nil {
			return err
		}
		to := console.YAML
		switch *form {
		case formTable:
			*form = formText
			return run(c, args)
		case formName:
			to = console.Names
		case formText, formJSON:
			return run(c, args)
		}
		*form = formJSON
		stdout := a.stdout
		var made bytes.Buffer
		a.stdout = &made
		err := run(c, args)
		a.stdout = stdout
		return errors.Join(to(stdout, made.Bytes()), err)
	}
}

// show writes a value as JSON, or calls text to write it for people.
func (a *app) show(form string, v any, text func() error) error {
	if form == formJSON {
		return console.JSON(a.stdout, v)
	}
	return text()
}

// showList writes a list as JSON or as a table. For an empty list it says that there are none.
func showList[T any](a *app, form string, list []T, what string, rows func([]T) [][]string) error {
	return a.show(form, list, func() error {
		if len(list) == 0 {
			fmt.Fprintln(a.stderr, "no "+what+" in workspace "+a.workspace)
			return nil
		}
		return console.Table(a.stdout, rows(list))
	})
}

// on runs f on the server or an existing database, with the arguments of a command.
func (a *app) on(f func(ctx context.Context, cl *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error { return f(ctx, cl, args) })
	}
}

// onJob runs f on the job named by the first argument of a command, with the other arguments.
func (a *app) onJob(f func(ctx context.Context, cl *client.Client, id pawl.ID, rest []string) error) func(*cobra.Command, []string) error {
	return a.on(func(ctx context.Context, cl *client.Client, args []string) error {
		id, err := a.jobOf(ctx, cl, args[0])
		if err != nil {
			return err
		}
		return f(ctx, cl, id, args[1:])
	})
}

// all calls f with each element of a list. It prints an error and continues, and returns the
// highest exit code.
func all[T any](a *app, list []T, f func(T) error) error {
	worst := codeOK
	for _, v := range list {
		if err := f(v); err != nil {
			worst = max(worst, complain(a.stderr, err))
		}
	}
	if worst != codeOK {
		return exit{worst}
	}
	return nil
}

// optional returns the first of the optional arguments, or "".
func optional(args []string) string { return strings.Join(args[:min(len(args), 1)], "") }

// bindReason adds the flag --reason.
func bindReason(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "", "why, for the audit trail")
}

// bindRequestID adds the flag --request-id to a command that creates something.
func bindRequestID(c *cobra.Command, id *string, made string) {
	c.Flags().StringVar(id, "request-id", "", "with the same id again, no second "+made+" is created (for an hour)")
}

// change returns the user and the reason of an operator's action.
func (a *app) change(reason string) pawl.Change {
	return pawl.Change{Actor: a.actor(), Reason: reason}
}

// jsonOf reads JSON from the value of a flag, or from the file that it names after an @.
func jsonOf(flag, text string) (json.RawMessage, error) {
	raw, err := textOf(flag, text)
	if err != nil {
		return nil, err
	}
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return nil, usage("write text with its quotes: '\"yes\"'; @FILE reads a file", "%s: want JSON, or @FILE", flag)
	}
	return bytes.TrimSpace(raw), nil
}

// maxInputFile bounds the file that the value of a flag names, in bytes.
const maxInputFile = 1 << 20

// textOf returns the value of a flag, or the contents of the file that it names after an @.
func textOf(flag, text string) ([]byte, error) {
	path, ok := strings.CutPrefix(text, "@")
	if !ok {
		return []byte(text), nil
	}
	b, err := files.Read(path, maxInputFile)
	if err == nil && len(b) > maxInputFile {
		err = usage("", "%s: %s has more than %d bytes", flag, path, maxInputFile)
	}
	return b, err
}

// dataOf reads the flag --data. It returns nil if the flag was not given.
func dataOf(c *cobra.Command) (json.RawMessage, error) {
	f := c.Flags().Lookup("data")
	if !f.Changed {
		return nil, nil
	}
	return jsonOf("--data", f.Value.String())
}

// valuesOf reads the pairs of a flag. parse converts each value to the type of its name.
func valuesOf(flag, hint string, pairs []string, parse func(name, text string) (any, error)) (map[string]any, error) {
	set := make(map[string]any)
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage(hint, "%s %q: want key=value", flag, pair)
		}
		if !utf8.ValidString(pair) {
			return nil, usage("", "%s %q: want text in UTF-8", flag, pair)
		}
		v, err := parse(name, text)
		if err != nil {
			return nil, err
		}
		set[name] = v
	}
	return set, nil
}

// completed offers to the shell the words of the server or an existing database that begin with the typed
// text.
func (a *app) completed(c *cobra.Command, begun string, list func(ctx context.Context, cl *client.Client, offer func(word, about string)) error) ([]string, cobra.ShellCompDirective) {
	if a.settle(c) != nil || a.server == "" && a.existing() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	err := a.with(c.Context(), func(ctx context.Context, cl *client.Client) error {
		return list(ctx, cl, func(word, about string) {
			if strings.HasPrefix(word, begun) {
				words = append(words, word+"\t"+about)
			}
		})
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completedFirst is completed for the first argument of a command; it offers nothing for later
// ones.
func (a *app) completedFirst(c *cobra.Command, args []string, begun string, list func(ctx context.Context, cl *client.Client, offer func(word, about string)) error) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completed(c, begun, list)
}

// completeSteps offers jobs to the shell, and then the unfinished steps of the named job.
func (a *app) completeSteps(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeJobs(c, args, begun)
	case 1:
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completed(c, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		id, err := a.jobOf(ctx, cl, args[0])
		if err != nil {
			return err
		}
		v, err := cl.Jobs.Get(ctx, id)
		if err != nil {
			return err
		}
		for i := range v.Steps {
			if s := &v.Steps[i]; s.CompletedAt == 0 {
				offer(s.Key, string(s.Status))
			}
		}
		return nil
	})
}

// completeMoreJobs offers jobs that are not yet on the command line.
func (a *app) completeMoreJobs(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	ids, how := a.completeJobs(c, nil, begun)
	return slices.DeleteFunc(ids, func(line string) bool {
		id, _, _ := strings.Cut(line, "\t")
		return slices.Contains(args, id)
	}), how
}
