package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/files"
)

// bindForm adds the flag --output of a command that writes text or JSON, and has it checked.
func bindForm(c *cobra.Command, form *string, what string) {
	c.Flags().StringVarP(form, "output", "o", formText, "text, or json: "+what)
	c.PreRunE = func(*cobra.Command, []string) error { return oneOf("output", *form, formText, formJSON) }
}

// bindReason adds the flag --reason.
func bindReason(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "", "why, for the audit trail")
}

// bindRequestID adds the flag --request-id of a command that makes something.
func bindRequestID(c *cobra.Command, id *string, made string) {
	c.Flags().StringVar(id, "request-id", "", "with the same id again, no second "+made+" is made (for an hour)")
}

// change says who asks for what an operator does, and why.
func (a *app) change(reason string) pawl.Change {
	return pawl.Change{Actor: a.actor(), Reason: reason}
}

// jsonOf reads the JSON of a text, or of the file that it names behind an @. It is
// the value of a flag.
func jsonOf(flag, text string) (json.RawMessage, error) {
	raw := []byte(text)
	if path, ok := strings.CutPrefix(text, "@"); ok {
		b, err := files.Read(path, maxInputFile)
		if err != nil {
			return nil, err
		}
		if len(b) > maxInputFile {
			return nil, usage("", "%s: %s has more than %d bytes", flag, path, maxInputFile)
		}
		raw = b
	}
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return nil, usage("a text is written with its quotes: '\"yes\"'; @FILE reads it from a file", "%s: want JSON, or @FILE of it", flag)
	}
	return bytes.TrimSpace(raw), nil
}

// dataOf reads the flag --data. One that was not given is nil.
func dataOf(c *cobra.Command) (json.RawMessage, error) {
	f := c.Flags().Lookup("data")
	if !f.Changed {
		return nil, nil
	}
	return jsonOf("--data", f.Value.String())
}

// setOf reads the values of --set, each by the type that parse knows its name to
// have.
func setOf(pairs []string, parse func(name, text string) (any, error)) (map[string]any, error) {
	return valuesOf("--set", "write --set day=2026-01-31", pairs, parse)
}

// valuesOf reads the pairs of a flag, each value by the type that parse knows its name to
// have.
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

// completed offers words of the database to the shell, if the database is there: those that
// begin with what was typed.
func (a *app) completed(c *cobra.Command, begun string, list func(ctx context.Context, cl *client.Client, offer func(word, about string)) error) ([]string, cobra.ShellCompDirective) {
	if a.settle() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if db, err := a.named(); err != nil || db.Postgres == "" && !exists(db.Path) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	err := a.with(c.Context(), func(cl *client.Client) error {
		return list(c.Context(), cl, func(word, about string) {
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

// completeSteps offers jobs to the shell, and then the steps of the job that has
// been named which have not ended.
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

// completeMoreJobs offers jobs that have not been named yet.
func (a *app) completeMoreJobs(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	ids, how := a.completeJobs(c, nil, begun)
	return slices.DeleteFunc(ids, func(line string) bool {
		id, _, _ := strings.Cut(line, "\t")
		return slices.Contains(args, id)
	}), how
}
