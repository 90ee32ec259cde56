package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/crewstep"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// wantBeforeDash is want for the arguments before "--".
func (k *crewApp) wantBeforeDash(least, most int, words string) cobra.PositionalArgs {
	check := want(least, most, words)
	return func(c *cobra.Command, args []string) error {
		names, argv := aroundDash(c, args)
		if c.ArgsLenAtDash() >= 0 && len(argv) == 0 {
			return usage("usage: "+c.UseLine(), "%s: want a COMMAND after --", c.CommandPath())
		}
		return check(c, names)
	}
}

// aroundDash returns the arguments before and after "--".
func aroundDash(c *cobra.Command, args []string) (before, after []string) {
	at := c.ArgsLenAtDash()
	if at < 0 {
		return args, nil
	}
	return args[:at], args[at:]
}

// A crewTask has the flags that say what is to be done.
type crewTask struct {
	crew.Task
	file string
}

func (o *crewTask) bind(c *cobra.Command) {
	c.Flags().StringVarP(&o.file, "file", "f", "", "file that says what to do; - is stdin")
	c.Flags().StringVar(&o.Target, "target", "", "branch on which the work is to land; default the one that is checked out in the main worktree")
	c.Flags().StringVar(&o.Base, "base", "", "commit at which the work begins; default the head of the target")
	c.Flags().IntVar(&o.MaxAttempts, "max-attempts", 3, "how often to try, 1 or more")
}

// assign gives the task to a member.
func (k *crewApp) assign(ctx context.Context, cr *crew.Crew, id, task string, o crewTask, change crewChange) (m *crew.Member, err error) {
	o.ID = task
	if o.MaxAttempts < 1 {
		return nil, usage("", "--max-attempts %d: want 1 or more", o.MaxAttempts)
	}
	if o.Prompt, err = k.text(o.file); err != nil {
		return nil, err
	}
	if o.Target == "" {
		if o.Target, err = cr.Repo.CurrentBranch(ctx); err != nil {
			return nil, err
		}
	}
	by, err := k.caller(id, change)
	if err != nil {
		return nil, err
	}
	return cr.Assign(ctx, id, o.Task, by)
}

// text returns the contents of a file, or of stdin for "-", and nothing for no name.
func (k *crewApp) text(name string) (string, error) {
	switch name {
	case "":
		return "", nil
	case "-":
		b, err := io.ReadAll(io.LimitReader(k.stdin, crew.MaxPrompt+1))
		return string(b), err
	}
	b, err := files.Read(name, crew.MaxPrompt)
	return string(b), err
}

func (k *crewApp) newAssign() *cobra.Command {
	var o crewTask
	var change crewChange
	form := formText
	c := &cobra.Command{
		Use: "assign MEMBER TASK", Short: "Give a task to an idle member",
		Long: `Give a task to an idle member. The id of the TASK has letters, digits, '.', '_' and '-', as that of
an issue has; a task is with one member at a time. The branch of the work is MEMBER/TASK, and
MEMBER/TASK.2 for the second attempt. It is made when the member starts.`,
		Example: "  pawl crew assign auth login-page -f tasks/login.md\n  pawl crew assign docs PAWL-17 --target release-2 --max-attempts 1",
		Args:    want(2, 2, "a MEMBER and a TASK"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
			m, err := k.assign(ctx, cr, args[0], args[1], o, change)
			if err != nil {
				return err
			}
			return k.changed(form, m)
		}),
	}
	k.bind(c, &form, "the member")
	o.bind(c)
	change.bind(c)
	return c
}

const crewStartLong = `Run the program of a member in the worktree of its task, until the program ends: the COMMAND, or
what "pawl crew spawn" was given. A member whose work has come back is started again in the same
worktree. If an attempt fails and another one is left, that begins 10 s later, and so on; with
--once it does not.

The program has no input, its output goes to files that "pawl crew log" shows, and it sees
PAWL_WORKER, PAWL_TASK, PAWL_PROMPT and what else docs/crew.md lists. When it ends, whatever it
has left running is killed. If it ended well (code 0) and has not submitted its work, the work
is submitted; otherwise the attempt has failed, and so has the command (exit 1). Ctrl-C stops it.

As long as this command runs, it beats for the member. If it is killed, the program is, too, and
patrol knows at once. With --detach the command returns once the member works, and another
process does all that.`

// A crewStart has the flags of a start.
type crewStart struct {
	reason string
	once   bool
	detach bool
}

func (o *crewStart) bind(c *cobra.Command) {
	bindReason(c, &o.reason)
	c.Flags().BoolVar(&o.once, "once", false, "begin no further attempt if this one fails")
	c.Flags().BoolVar(&o.detach, "detach", false, "return once the member works")
}

func (k *crewApp) newStart() *cobra.Command {
	var o crewStart
	form := formText
	c := &cobra.Command{
		Use: "start [MEMBER] [-- COMMAND ARG...]", Short: "Run the program of a member on its task", Long: crewStartLong,
		Example: "  pawl crew start auth --detach\n  pawl crew start docs -- sh -c 'make docs && git commit -am docs'",
		Args:    k.wantBeforeDash(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
	}
	c.RunE = k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
		names, argv := aroundDash(c, args)
		id, err := k.member(names)
		if err != nil {
			return err
		}
		return k.start(ctx, cr, id, argv, form, o)
	})
	k.bind(c, &form, "the member, after the program has ended")
	o.bind(c)
	return c
}

func (k *crewApp) newRun() *cobra.Command {
	var task crewTask
	var o crewStart
	form := formText
	c := &cobra.Command{
		Use: "run MEMBER TASK [-- COMMAND ARG...]", Short: "Give a task to a member, and start it",
		Long:    "Give a task to an idle member and run its program: \"pawl crew assign\" and \"pawl crew start\" at\nonce.",
		Example: "  pawl crew run auth login-page -f tasks/login.md\n  pawl crew run docs manual -- ./agent.sh",
		Args:    k.wantBeforeDash(2, 2, "a MEMBER and a TASK"), ValidArgsFunction: k.completeMembers,
	}
	c.RunE = k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
		names, argv := aroundDash(c, args)
		if len(argv) == 0 { // rather before it has the task
			if _, err := cr.AgentOf(names[0]); err != nil {
				return err
			}
		}
		m, err := k.assign(ctx, cr, names[0], names[1], task, crewChange{reason: o.reason})
		if err != nil {
			return err
		}
		return k.start(ctx, cr, m.ID, argv, form, o)
	})
	k.bind(c, &form, "the member, after the program has ended")
	task.bind(c)
	o.bind(c)
	return c
}

// start runs the program of a member, and then those of its further attempts.
func (k *crewApp) start(ctx context.Context, cr *crew.Crew, id string, argv []string, form string, o crewStart) error {
	if o.detach {
		return k.detach(ctx, cr, id, argv, form, o)
	}
	by, err := k.caller(id, crewChange{reason: o.reason})
	if err != nil {
		return err
	}
	program := func(m *crew.Member) (crew.Program, error) { return k.program(cr, m, argv) }
	begun := func(m *crew.Member) {
		crew.Ready(nil)
		fmt.Fprintf(k.stderr, "member %s works on %s; stop it with Ctrl-C\n", id, m.Task)
	}
	run := cr.RunAll
	if o.once {
		run = cr.RunOnce
	}
	m, err := run(ctx, id, program, by, begun)
	if err == nil && (m.State == lifecycle.MemberAssigned || m.State == lifecycle.MemberFailed) {
		err = &pawl.Error{Kind: pawl.Internal, Message: fmt.Sprintf("member %s: %s", id, m.LastError), Hint: "see what the program has printed with: pawl crew log " + id}
	}
	crew.Ready(err)
	if m == nil {
		return err
	}
	return errors.Join(k.changed(form, m), err)
}

// program returns what works for a member: a command line, or what the member was spawned with.
func (k *crewApp) program(cr *crew.Crew, m *crew.Member, argv []string) (crew.Program, error) {
	p, err := crew.Program{Argv: argv}, error(nil)
	if len(argv) == 0 {
		p, err = cr.ProgramFor(m, k.agentProfiles())
	}
	if err != nil {
		return p, err
	}
	return p, p.Check()
}

// agentProfiles returns the folder of the user's profiles of agents, or nothing.
func (k *crewApp) agentProfiles() string {
	dir := k.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(k.getenv("HOME"), ".config")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, filepath.FromSlash(crew.ProfilesDir))
}

// detach starts the runner of a member, and shows the member once it works.
func (k *crewApp) detach(ctx context.Context, cr *crew.Crew, id string, argv []string, form string, o crewStart) error {
	m, err := k.launch(ctx, cr, id, argv, o)
	if err != nil {
		return err
	}
	return k.changed(form, m)
}

// launch starts this program again as the runner of a member, on its own.
func (k *crewApp) launch(ctx context.Context, cr *crew.Crew, id string, argv []string, o crewStart) (*crew.Member, error) {
	runner := append(crewRunner(cr, id), "--reason", o.reason, fmt.Sprintf("--once=%t", o.once))
	if len(argv) > 0 {
		runner = append(append(runner, "--"), argv...)
	}
	return cr.Launch(ctx, id, runner)
}

// crewRunner returns the command that runs the program of a member.
func crewRunner(cr *crew.Crew, id string) []string {
	return []string{ownProgram(), "crew", "start", id, "--repo", cr.Repo.Root}
}

// crewSteps returns the handler of steps that give a task to a member of a crew.
func (a *app) crewSteps() worker.Handler {
	state, err := a.stateHome("set XDG_STATE_HOME", "worktrees are")
	if err != nil {
		return worker.Func(func(context.Context, *worker.Task) (any, error) { return nil, worker.Permanent(err) })
	}
	return crewstep.Handler(crewstep.Config{State: state, Runner: crewRunner})
}
