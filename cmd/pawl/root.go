package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl"
)

// An app is one run of the program: the process and its global flags.
type app struct {
	*process
	database  string
	workspace string
	logLevel  string
	logFormat string
	log       *slog.Logger
	given     string // the global flags that a hint has to repeat
}

const rootLong = `Pawl runs workflows as durable jobs: every step is a state machine, every move
is one audited write, and whatever dies is picked up where it stood.

The database is a SQLite file or a PostgreSQL URL, named by --database or
PAWL_DATABASE:

  sqlite:///var/lib/pawl/pawl.db                     a file, made if it is missing
  sqlite:///var/lib/pawl/pawl.db?synchronous=normal  faster; a power cut may take the last moments
  sqlite::memory:                                    gone when the command ends
  ./pawl.db                                          a path is a SQLite file
  postgres://user:password@host/database

Without either it is $XDG_STATE_HOME/pawl/pawl.db, or ~/.local/state/pawl/pawl.db.

A JOB is an id (j_ and 32 digits), or the first or last of its digits, 6 at
least, if they tell it from the other jobs among the newest 1000 of the workspace.

Exit codes: 0 ok, 1 failed (the job, the check), 2 usage or invalid input,
3 not found, 4 not allowed, 5 conflict, 6 busy or unavailable, 124 the job timed
out, 130 interrupted. Talk goes to stderr, data to stdout.`

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "pawl",
		Short:         "Durable workflows in one binary",
		Long:          rootLong,
		Example:       "  pawl run hello.yaml\n  pawl jobs\n  pawl job show 3f9a01",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.settle()
		},
	}
	group(root)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&a.database, "database", "", "database: a SQLite file or URL, or a PostgreSQL URL (env PAWL_DATABASE)")
	f.StringVar(&a.workspace, "workspace", "", `namespace of jobs and workers (env PAWL_WORKSPACE; default "default")`)
	f.StringVar(&a.logLevel, "log-level", "warn", "what is logged to stderr: debug, info, warn or error")
	f.StringVar(&a.logFormat, "log-format", "text", "how it is logged: text or json")
	root.AddCommand(commands(a)...)
	root.SetHelpCommand(newHelp())
	return root
}

// commands are the commands of the program. A file that adds one adds it here.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newRun(a), newSubmit(a), newExec(a), newDev(a),
		newValidate(a), newPlan(a),
		newJobs(a), newJob(a),
		newMachine(a), newAudit(a), newMigrate(a), newBench(a), newVersion(a),
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command",
		Long:    "Show what a command does, its flags with their units and defaults, and an example.",
		Example: "  pawl help run\n  pawl help job cancel",
		RunE: func(c *cobra.Command, words []string) error {
			about := c.Root()
			for _, word := range words {
				next := about
				for _, sub := range about.Commands() {
					if sub.Name() == word {
						next = sub
					}
				}
				if next == about {
					return unknownCommand(about, word)
				}
				about = next
			}
			return about.Help()
		},
	}
}

// settle completes the global flags from the environment.
func (a *app) settle() error {
	if a.database != "" {
		a.given += " --database " + a.database
	}
	if a.workspace != "" {
		a.given += " --workspace " + a.workspace
	}
	if a.database == "" {
		a.database = a.getenv("PAWL_DATABASE")
	}
	if a.workspace == "" {
		a.workspace = a.getenv("PAWL_WORKSPACE")
	}
	if a.workspace == "" {
		a.workspace = pawl.DefaultWorkspace
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return usage("", "--log-level %q: want debug, info, warn or error", a.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		a.log = slog.New(slog.NewTextHandler(a.stderr, options))
	case "json":
		a.log = slog.New(slog.NewJSONHandler(a.stderr, options))
	default:
		return usage("", "--log-format %q: want text or json", a.logFormat)
	}
	return nil
}

// group makes a command of one that only holds others: by itself it shows its
// help, and a word that is not a command of it is an error that names the
// nearest.
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

// flagError says what is wrong with a flag in the house's voice.
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

// nouns say what a flag's type wants.
var nouns = map[string]string{
	"int":      "a whole number",
	"bool":     "true or false",
	"duration": "a duration such as 30s or 1h30m",
	"string":   "a text",
}

func unknownFlag(c *cobra.Command, missing *pflag.NotExistError, hint string) error {
	name := missing.GetSpecifiedName()
	if short := missing.GetSpecifiedShortnames(); short != "" {
		return usage(hint, "unknown flag -%s for %s", name, c.CommandPath())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(name, names); near != "" {
		hint = "did you mean: --" + near
	}
	return usage(hint, "unknown flag --%s for %s", name, c.CommandPath())
}

// nearest answers the name that a slip of the keyboard away from word, or "".
func nearest(word string, names []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := distance(strings.ToLower(word), n); d < least {
			best, least = n, d
		}
	}
	if len(word) < 3 && least > 1 {
		return ""
	}
	return best
}

// distance answers how many letters have to be added, dropped or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// want answers the check that a command gets as many arguments as it names,
// between least and most (-1: any number).
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

// oneOf checks the value of a flag against those it may have.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	hint := ""
	if near := nearest(value, allowed); near != "" {
		hint = fmt.Sprintf("did you mean: --%s %s", flag, near)
	}
	return usage(hint, "--%s %q: want %s", flag, value, alternatives(allowed))
}

// alternatives lists words as "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
