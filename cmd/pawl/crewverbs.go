package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/lifecycle"
)

// verb completes a command that changes one member, which act does.
func (k *crewApp) verb(c *cobra.Command, act func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error)) *cobra.Command {
	var o crewChange
	form := formText
	c.Use += " [MEMBER]"
	c.Args, c.ValidArgsFunction = want(0, 1, "one MEMBER"), k.completeMembers
	c.RunE = k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
		id, err := k.member(args)
		if err != nil {
			return err
		}
		by, err := k.caller(id, o)
		if err != nil {
			return err
		}
		m, err := act(ctx, cr, id, by)
		if err != nil {
			return err
		}
		return k.changed(form, m)
	})
	k.bind(c, &form, "the member")
	o.bind(c)
	return c
}

// changed shows a member after a change.
func (k *crewApp) changed(form string, m *crew.Member) error {
	return k.show(form, m, func() error {
		line := fmt.Sprintf("member %s is %s (version %d)", m.ID, m.State, m.Version)
		if m.Task != "" {
			line += fmt.Sprintf(": task %s, attempt %d of %d", m.Task, m.Attempt, m.MaxAttempts)
		}
		_, err := fmt.Fprintln(k.stdout, console.Printable(line))
		return err
	})
}

func (k *crewApp) newSpawn() *cobra.Command {
	var o crewChange
	var agent crew.Agent
	form := formText
	c := &cobra.Command{
		Use: "spawn MEMBER [-- COMMAND ARG...]", Short: "Add a member",
		Long: `Add a member. Its id has lower-case letters and digits, with single hyphens between them.

--agent or the COMMAND is what "pawl crew start" and "run" start for it if they name nothing. An
agent is a profile: aider, claude, codex, gemini, goose, script, or a file NAME.yaml in
~/.config/pawl/agents. A COMMAND is searched in PATH or, with a slash, from the worktree of the
task. docs/crew.md says what it sees. If the member exists already, the command sets what is
started for it from now on, and changes nothing else.`,
		Example: "  pawl crew spawn auth --agent claude\n  pawl crew spawn docs -- ./agent.sh",
		Args:    k.wantBeforeDash(1, 1, "the id of a MEMBER"),
	}
	c.RunE = k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
		names, argv := aroundDash(c, args)
		by, err := k.caller(names[0], o)
		if err != nil {
			return err
		}
		switch agent.Argv = argv; {
		case agent.Profile != "" && len(argv) > 0:
			return usage("", "--agent %s and a COMMAND: want one of them", agent.Profile)
		case agent.Profile != "":
			if _, err := crew.FindProfile(k.agentProfiles(), agent.Profile); err != nil {
				return err
			}
		}
		return k.spawn(ctx, cr, names[0], agent, form, crew.Move{Actor: by.Actor, Reason: o.reason})
	})
	k.bind(c, &form, "the member")
	bindReason(c, &o.reason)
	c.Flags().StringVar(&agent.Profile, "agent", "", "the profile of an agent program")
	return c
}

// spawn adds a member, or sets the program of one that exists. The program is set first: killed in
// between, the command can be repeated.
func (k *crewApp) spawn(ctx context.Context, cr *crew.Crew, id string, agent crew.Agent, form string, move crew.Move) error {
	program := cmp.Or(agent.Profile, strings.Join(agent.Argv, " "))
	if program != "" {
		if err := cr.SetAgent(id, agent); err != nil {
			return err
		}
	}
	m, err := cr.Spawn(ctx, id, move)
	if err == nil {
		return k.changed(form, m)
	}
	there, unread := cr.Load(id)
	switch {
	case pawl.KindOf(err) != pawl.Conflict || unread != nil:
		return err
	case program == "":
		return &pawl.Error{Kind: pawl.Conflict, Message: err.Error(), Hint: "set its program with --agent or a COMMAND after --"}
	}
	return k.show(form, there, func() error {
		_, err := fmt.Fprintln(k.stdout, console.Printable(fmt.Sprintf("member %s exists, and is %s: its program is now %s", id, there.State, program)))
		return err
	})
}

func (k *crewApp) newSubmit() *cobra.Command {
	return k.verb(&cobra.Command{
		Use: "submit", Aliases: []string{"done"}, Short: "Offer the work of a member for review",
		Long: `Offer the work of a member for review: its branch has a commit, and its worktree nothing that is
not committed (exit 9). A program that ends well and has not submitted is submitted.`,
		Example: "  pawl crew submit\n  pawl crew submit auth",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		return cr.Submit(ctx, id, by)
	})
}

func (k *crewApp) newFail() *cobra.Command {
	permanent := false
	c := k.verb(&cobra.Command{
		Use: "fail", Short: "End the attempt of a member",
		Long: `End the attempt of a member. The next one begins at the head of the target after 10 s, 20 s and
so on, unless this was the last one. With --permanent there is no next one.`,
		Example: "  pawl crew fail --reason \"the tests need a database\"\n  pawl crew fail auth --permanent",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		return cr.Fail(ctx, id, permanent, by)
	})
	c.Flags().BoolVar(&permanent, "permanent", false, "another attempt could not help")
	return c
}

func (k *crewApp) newCancel() *cobra.Command {
	return k.verb(&cobra.Command{
		Use: "cancel", Short: "End the task of a member for good",
		Long:    "End the task of a member for good. Its branch and worktree stay.",
		Example: "  pawl crew cancel docs --reason \"not needed\"",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		return cr.Cancel(ctx, id, by)
	})
}

func (k *crewApp) newRetry() *cobra.Command {
	return k.verb(&cobra.Command{
		Use: "retry", Short: "Begin another attempt of a task that has failed",
		Long:    "Begin another attempt of a task that has failed, on a branch of its own from the head of the\ntarget.",
		Example: "  pawl crew retry docs",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		return cr.Retry(ctx, id, by)
	})
}

func (k *crewApp) newReset() *cobra.Command {
	discard := false
	c := k.verb(&cobra.Command{
		Use: "reset", Short: "Make a member idle that has failed",
		Long: `Make a member idle that has failed. Its history, branches and worktrees stay. With --discard its
worktrees and branches go, so that it can have the same task again; all that they have is kept
under refs, which are named.`,
		Example: "  pawl crew reset docs\n  pawl crew reset docs --discard",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		if discard {
			kept, err := cr.DiscardFailed(ctx, id, by)
			for _, ref := range kept {
				fmt.Fprintln(k.stderr, "kept under "+ref)
			}
			if err != nil {
				return nil, err
			}
		}
		return cr.Leave(ctx, id, lifecycle.MemberReset, by)
	})
	c.Flags().BoolVar(&discard, "discard", false, "remove its worktrees and branches, and keep what they have under refs")
	return c
}

func (k *crewApp) newRecycle() *cobra.Command {
	return k.verb(&cobra.Command{
		Use: "recycle", Short: "Make a member idle whose work has landed",
		Long:    "Make a member idle whose work has landed, so that it can have another task. Its history stays.",
		Example: "  pawl crew recycle auth",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		return cr.Leave(ctx, id, lifecycle.MemberRecycle, by)
	})
}

func (k *crewApp) newHeartbeat() *cobra.Command {
	form, note := formText, ""
	c := &cobra.Command{
		Use: "heartbeat [MEMBER]", Short: "Say that a member is alive",
		Long: `Record that a member is alive. The runner of "pawl crew start" does so by itself; programs that
others start have to do it every 30 s, or patrol takes them for dead after 15 min. A heartbeat
of an assignment that is over is refused (exit 5): whoever sends it should stop.`,
		Example: "  pawl crew heartbeat --note \"runs the tests\"",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(_ context.Context, cr *crew.Crew, args []string) error {
			id, err := k.member(args)
			if err != nil {
				return err
			}
			by, err := k.caller(id, crewChange{})
			if err != nil {
				return err
			}
			b, err := cr.BeatOf(id, by.Epoch, note)
			if err != nil {
				return err
			}
			return k.show(form, b, func() error {
				_, err := fmt.Fprintf(k.stdout, "heartbeat %d of member %s\n", b.Sequence, id)
				return err
			})
		}),
	}
	k.bind(c, &form, "the heartbeat")
	c.Flags().StringVar(&note, "note", "", "what the member does, for people")
	return c
}
