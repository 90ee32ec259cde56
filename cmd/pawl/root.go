package main

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
)

// An app is one run of the program: the process and its global flags.
type app struct {
	*process
	database  string
	server    string // the URL of a server, to be used instead of a database; or empty
	cert, key string // the files with the certificate to show to the server, and its key
	tokenFile string // the file with the secret of a token for the server; empty: PAWL_TOKEN
	secretKey string // the file with the keys that encrypt secrets in the database, for commands that use secrets
	ca        string // the file with the certificates that the server's is signed by; empty: the system's
	workspace string
	profile   string // the name of the profile that the server is from, or empty

	tokenCommand string // of the profile: it prints the secret of a token
	confirm      bool   // the profile wants consent to each change
	yes          bool   // it is given

	logLevel  string
	logFormat string
	log       *slog.Logger
	logs      *console.LogWriter
	given     string // the global flags that a hint has to repeat
	utc       bool   // show times in UTC on a terminal, too

	silence time.Duration // of the workers of this process; 0 is the default
}

const rootLong = `Pawl runs workflows as durable jobs. Each job and each step is a state machine, and each
move is one audited write. If a process dies, another one continues its work.

--database or PAWL_DATABASE names the database, a SQLite file or a PostgreSQL server:

  sqlite:///var/lib/pawl/pawl.db                     a file, created if it does not exist
  sqlite:///var/lib/pawl/pawl.db?synchronous=normal  faster; a power cut may lose the last moments
  sqlite::memory:                                    gone when the command ends
  ./pawl.db                                          a path is a SQLite file
  postgres://user:password@host/database

The default is $XDG_STATE_HOME/pawl/pawl.db, or ~/.local/state/pawl/pawl.db.

--server or PAWL_SERVER names a server to use instead: https://HOST, or http://127.0.0.1:7295
for one on this machine, such as "pawl dev"; --profile or PAWL_PROFILE a server that "pawl
profile add" has stored with its credentials. It is for the commands that submit, show and
change jobs, workflows, schedules, queues, quotas, tokens, webhooks, workers and services,
"pawl doctor" and "pawl worker". "pawl validate", "verify" and "simulate" use a server only if
a flag names one. Other commands that run something here, or work on the database itself,
refuse the flags and ignore the rest. The first that is there counts: a flag, PAWL_SERVER,
PAWL_PROFILE, PAWL_DATABASE, the default profile, the default database. PAWL_TOKEN, or the file
that --token-file names, has the secret of a token for the server of --server or PAWL_SERVER:
see "pawl help token".

A JOB is an id (j_ and 32 digits); its last 4 or more digits, or its first 6 or more, if no
other job has them; last, the newest job that is not a child job; or last:WORKFLOW, the newest
job of a workflow. All but a whole id are searched among the newest 10,000 jobs of the
workspace. Jobs of one day have the same first digits.

Times on a terminal are local, or in UTC with --utc. In files and pipes, in JSON and in the
sentences of "pawl job why" they are in UTC.

Exit codes: 0 ok, 1 failed (the job or the check), 2 usage or invalid input, 3 not found,
4 not allowed, 5 conflict, 6 busy or unavailable, 11 a file or folder on which the process
works is gone, 124 the job timed out, 130 interrupted; "pawl crew" has more. Data goes to
stdout, messages to stderr.`

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "pawl",
		Short:         "Durable workflows in one binary",
		Long:          rootLong,
		Example:       "  pawl run hello.yaml\n  pawl jobs\n  pawl job show last",
		Version:       about(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := a.settle(c); err != nil {
				return err
			}
			return a.consent(c)
		},
	}
	group(root)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.database, "database", "", "database: a SQLite file or URL, or a PostgreSQL URL (env PAWL_DATABASE)")
	f.StringVar(&a.server, "server", "", "URL of a server to use instead of a database (env PAWL_SERVER)")
	f.StringVar(&a.profile, "profile", "", "name of a profile, which has a server and its credentials (env PAWL_PROFILE); see \"pawl help profile\"")
	f.BoolVar(&a.yes, "yes", false, "do not ask for consent to --all, or to a change on a server whose profile asks for it")
	f.StringVar(&a.tokenFile, "token-file", "", "file with the secret of a token for the server (env PAWL_TOKEN: the secret itself)")
	f.StringVar(&a.cert, "client-cert", "", "file with the certificate to show to the server instead of a token, in PEM")
	f.StringVar(&a.key, "client-key", "", "file with the key of that certificate, in PEM")
	f.StringVar(&a.ca, "ca", "", "file with the certificates that the server's is signed by, in PEM; default: those of the system")
	f.StringVar(&a.workspace, "workspace", "", `namespace of jobs and workers (env PAWL_WORKSPACE; default "default")`)
	f.StringVar(&a.logLevel, "log-level", "warn", "lowest level that is logged to stderr: debug, info, warn or error")
	f.StringVar(&a.logFormat, "log-format", "text", "format of the log: text or json")
	f.BoolVar(&a.utc, "utc", false, "show times in UTC on a terminal; the default there is local time")
	_ = root.RegisterFlagCompletionFunc("profile", a.completeProfiles) // the flag exists
	root.AddCommand(commands(a)...)
	root.SetHelpCommand(newHelp())
	return root
}

// addCompletion adds the library's command that writes completions for shells, and makes it
// refuse an unknown shell.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		group(c)
	}
}

// commands returns the commands of the program. A file that adds a command lists it here.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newRun(a), newSubmit(a), newExec(a),
		newDev(a), newServer(a), newWorker(a),
		newSupervise(a), newService(a), newCrew(a), newAgent(a), newLoad(a), newLoadEngine(a),
		newValidate(a), newPlan(a), newVerify(a), newSimulate(a),
		newWorkflow(a), newSchedule(a), newToken(a), newWebhook(a), newProfile(a),
		newJobs(a), newJob(a), newWatch(a), newStep(a), newApprove(a), newReject(a), newQueue(a), newQuota(a),
		newMachine(a), newAudit(a), newEvents(a), newPrune(a), newMigrate(a), newDoctor(a), newBench(a), newVersion(a),
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command",
		Long:    "Show what a command does, its flags with their units and defaults, and an example.",
		Example: "  pawl help run\n  pawl help job cancel",
		RunE: func(c *cobra.Command, words []string) error {
			about, rest, err := c.Root().Find(words)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return unknownCommand(about, rest[0])
			}
			return about.Help()
		},
	}
}

// repeated returns the global flags that a command in a hint needs too, without a password.
func (a *app) repeated() string {
	words := ""
	if a.database != "" {
		name := a.database
		if db, err := parseDatabase(name, ""); err == nil && db.Postgres != "" {
			name = db.String()
		}
		words += " --database " + console.Shell(name)
	}
	if a.server != "" {
		words += " --server " + console.Shell(a.server)
	}
	if a.profile != "" {
		words += " --profile " + console.Shell(a.profile)
	}
	if a.tokenFile != "" {
		words += " --token-file " + console.Shell(a.tokenFile)
	}
	if a.cert != "" {
		words += " --client-cert " + console.Shell(a.cert) + " --client-key " + console.Shell(a.key)
	}
	if a.ca != "" {
		words += " --ca " + console.Shell(a.ca)
	}
	if a.workspace != "" {
		words += " --workspace " + console.Shell(a.workspace)
	}
	return words
}

// settle completes the global flags of a command from the environment.
func (a *app) settle(c *cobra.Command) error {
	a.given = a.repeated()
	if err := a.locate(c); err != nil {
		return err
	}
	if a.workspace == "" {
		a.workspace = a.getenv("PAWL_WORKSPACE")
	}
	if a.secretKey == "" && usesSecrets(c) {
		a.secretKey = a.getenv("PAWL_SECRET_KEY_FILE")
	}
	if a.workspace == "" {
		a.workspace = pawl.DefaultWorkspace
	}
	if w := a.workspace; !utf8.ValidString(w) || console.Printable(w) != w {
		return usage("", "--workspace %q: want text without control characters", w)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return usage("", "--log-level %q: want debug, info, warn or error", a.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		a.log = slog.New(slog.NewTextHandler(a.logs, options))
	case "json":
		a.log = slog.New(slog.NewJSONHandler(a.logs, options))
	default:
		return usage("", "--log-format %q: want text or json", a.logFormat)
	}
	return nil
}

// usesSecrets reports whether a command signs, or makes secrets: others run without the file of keys.
func usesSecrets(c *cobra.Command) bool {
	first, _, _ := strings.Cut(pathOf(c), " ")
	return slices.Contains([]string{"server", "dev", "webhook"}, first)
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the program's version",
		Long:    "Show the version of the program, the Go version that built it, and the platform.",
		Example: "  pawl version",
		Args:    want(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, about())
			return err
		},
	}
}

// about returns the text of "pawl version" and "pawl --version".
func about() string {
	return fmt.Sprintf("pawl %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// release is the version of a release, which the linker sets:
// -ldflags "-X main.release=v1.2.3".
var release string

// version returns the version that the build records.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
