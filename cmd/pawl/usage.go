package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/store"
)

// usage returns the error of an invalid command line.
func usage(hint, format string, args ...any) error {
	return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// group makes a command that only holds others: alone it shows its help, and for an unknown
// word it returns an error that suggests the nearest command.
func group(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
	return c
}

func unknownCommand(c *cobra.Command, word string) error {
	hint := fmt.Sprintf("list the commands with: %s --help", c.CommandPath())
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if near := nearest(word, names); near != "" {
		hint = fmt.Sprintf("did you mean: %s %s", c.CommandPath(), near)
	}
	return usage(hint, "unknown command %q for %s", word, c.CommandPath())
}

// flagError describes a mistake in a flag in the style of this program.
func flagError(c *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	help := fmt.Sprintf("list the flags with: %s --help", c.CommandPath())
	var missing *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &missing):
		return unknownFlag(c, missing, help)
	case errors.As(err, &empty):
		return usage(help, "--%s needs a value", empty.GetFlag().Name)
	case errors.As(err, &wrong):
		f := wrong.GetFlag()
		return usage(help, "--%s %q: want %s", f.Name, wrong.GetValue(), nouns[f.Value.Type()])
	}
	return usage(help, "%s", err)
}

// nouns describe the values of a flag's type.
var nouns = map[string]string{
	"int":      "a whole number",
	"bool":     "true or false",
	"float64":  "a number",
	"duration": "a duration such as 30s or 1h30m",
	"string":   "a text",
	"age":      "1h or more, such as 12h or 30d",
}

func unknownFlag(c *cobra.Command, missing *pflag.NotExistError, hint string) error {
	name := missing.GetSpecifiedName()
	if short := missing.GetSpecifiedShortnames(); short != "" {
		return usage(hint, "unknown flag -%s for %s", name, c.CommandPath())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(name, names); near != "" && (len(name) > 3 || document.Distance(name, near) == 1) {
		hint = "did you mean: --" + near
	}
	return usage(hint, "unknown flag --%s for %s", name, c.CommandPath())
}

// nearest returns the name of which word is a misspelling, or "".
func nearest(word string, names []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := document.Distance(strings.ToLower(word), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	if len(word) < 3 && least > 1 {
		return ""
	}
	return best
}

// want returns a check that a command gets between least and most arguments (-1: any number),
// which words names.
func want(least, most int, words string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		hint := "usage: " + c.UseLine()
		switch {
		case len(args) < least:
			return usage(hint, "%s needs %s", c.CommandPath(), words)
		case most >= 0 && len(args) > most && most == 0:
			return usage(hint, "%s takes no argument, and got %q", c.CommandPath(), args[0])
		case most >= 0 && len(args) > most:
			return usage(hint, "%s takes %s, and got %q too", c.CommandPath(), words, args[most])
		}
		return nil
	}
}

// oneOf checks that the value of a flag is one of the allowed values.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	hint := ""
	if near := nearest(value, allowed); near != "" {
		hint = fmt.Sprintf("did you mean: --%s %s", flag, near)
	}
	return usage(hint, "--%s %q: want %s", flag, value, console.Alternatives(allowed))
}

// inRange checks that the number of a flag is in a range.
func inRange[T int | float64](flag string, n, least, most T) error {
	if n >= least && n <= most { // false for NaN
		return nil
	}
	return usage("", "%s %v: want %v to %v", flag, n, least, most)
}

// Exit codes.
const (
	codeOK          = 0
	codeFailed      = 1 // the job, or the check
	codeInvalid     = 2
	codeNotFound    = 3
	codeNotAllowed  = 4
	codeConflict    = 5
	codeUnavailable = 6
	codeGone        = 11 // 7 to 10 are those of crews
	codeTimedOut    = 124
	codeInterrupted = 130
)

// codes are the exit codes of the kinds of errors.
var codes = map[pawl.Kind]int{
	pawl.Internal:    codeFailed,
	pawl.Invalid:     codeInvalid,
	pawl.NotFound:    codeNotFound,
	pawl.Refused:     codeNotAllowed,
	pawl.Conflict:    codeConflict,
	pawl.Unavailable: codeUnavailable,
}

// An exit is the error of a command that has already reported everything.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func isExit(err error) bool {
	var e exit
	return errors.As(err, &e)
}

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var e exit
	var gone *durable.GoneError
	switch {
	case err == nil:
		return codeOK
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &gone):
		return codeGone
	case errors.Is(err, store.ErrNotFound):
		return codeNotFound
	}
	if code := crewCode(err); code != codeOK {
		return code
	}
	return codes[pawl.KindOf(err)]
}

// complain prints an error that was not printed yet, and returns its exit code.
func complain(w io.Writer, err error) int {
	if !isExit(err) {
		console.Complain(w, err)
	}
	return codeOf(err)
}

// hinted adds a command-line hint to an error of a library.
func hinted(err error, hint string) error {
	return &pawl.Error{Kind: pawl.KindOf(err), Message: err.Error(), Hint: hint}
}
