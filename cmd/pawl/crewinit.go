package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/crew"
)

const crewInitLong = `Make the folder of the crew, .worker-state, in the main worktree of the repository, and let git
ignore it by a line in .git/info/exclude. Before that the version of git is checked (2.38 or
newer), and after it, with a second process, that locks work on this file system. What exists
already stays, so the command may be repeated.

--agents-md writes what agents have to know into AGENTS.md, and into the skill pawl-crew in
.agents/skills and .claude/skills: a section between two lines that mark it. What you have written
outside of it stays; the section is replaced when the command is repeated. Commit these files, so
that the worktrees of members have them.`

// A crewInit is what "pawl crew init" has done.
type crewInit struct {
	Root      string   `json:"root"`
	Folder    string   `json:"folder"`
	Worktrees string   `json:"worktrees"`
	Git       string   `json:"git"`
	Written   []string `json:"written"` // files for agents
}

func (k *crewApp) newInit() *cobra.Command {
	form, guides := formText, false
	c := &cobra.Command{
		Use: "init", Short: "Make the crew of a repository", Long: crewInitLong,
		Example: "  pawl crew init\n  pawl crew init --agents-md",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			dir, state, err := k.place()
			if err != nil {
				return err
			}
			cr, err := crew.Init(c.Context(), dir, state)
			if err != nil {
				return err
			}
			did := crewInit{Root: cr.Repo.Root, Folder: cr.Dir, Worktrees: cr.Trees, Written: []string{}}
			if did.Git, err = crew.GitVersion(c.Context()); err != nil {
				return err
			}
			if guides {
				written, err := cr.Repo.WriteGuides()
				if did.Written = append(did.Written, written...); err != nil {
					return err
				}
			}
			return k.show(form, did, func() error { return k.initialized(did) })
		},
	}
	k.bind(c, &form, "what was made")
	c.Flags().BoolVar(&guides, "agents-md", false, "write a section for agents into AGENTS.md, and a skill")
	return c
}

func (k *crewApp) initialized(did crewInit) error {
	fmt.Fprintf(k.stdout, "the crew of %s is ready: git %s, locks work\n", did.Root, did.Git)
	fmt.Fprintf(k.stdout, "worktrees are made in %s\n", did.Worktrees)
	for _, path := range did.Written {
		fmt.Fprintf(k.stdout, "wrote %s; commit it, so that worktrees have it\n", path)
	}
	return nil
}

func (k *crewApp) newDoctor() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "doctor", Short: "Report what is wrong with the crew",
		Long: `Check the version of git, the locks of the file system with a second process, the state and
history of each member, what killed processes have left, and worktrees that no member has. Each
finding says what to do. The exit code is 1 if there is a problem, and 0 if there are only
warnings.`,
		Example: "  pawl crew doctor\n  pawl crew doctor --json",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			dir, state, err := k.place()
			if err != nil {
				return err
			}
			return k.report(crew.Examine(c.Context(), dir, state), form)
		},
	}
	k.bind(c, &form, "a list of findings")
	return c
}

func (k *crewApp) newPrompt() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "prompt [MEMBER]", Short: "Show an agent its task, its branch and its commands",
		Long: `Show the page that the program of a member begins with: its task, its worktree and branch, why
earlier work has come back, what it may not do, and the commands that it may need.`,
		Example: "  pawl crew prompt\n  pawl crew prompt auth > prompt.md",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(_ context.Context, cr *crew.Crew, args []string) error {
			id, err := k.member(args)
			if err != nil {
				return err
			}
			page, err := cr.Guide(id)
			if err != nil {
				return err
			}
			return k.show(form, map[string]string{"worker_id": id, "prompt": page}, func() error {
				_, err := fmt.Fprint(k.stdout, page)
				return err
			})
		}),
	}
	k.bind(c, &form, "the page as a text")
	return c
}

const crewHookLong = `For the hook of an agent program that runs when a session is about to end. In the program of a
member whose work is not submitted, the command says on stderr what is left to do, and its exit
code is 2, by which the session goes on. Otherwise it is 0, and so it is if the hook has kept the
session from ending once already (stop_hook_active in the JSON on stdin), or if PAWL_WORKER is
not set. The profile claude uses it.`

// codeGoOn tells an agent program not to end its session.
const codeGoOn = 2

func (k *crewApp) newHook() *cobra.Command {
	return &cobra.Command{
		Use: "hook", Short: "Keep the session of an agent from ending before it has submitted", Long: crewHookLong,
		Example: "  pawl crew hook",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			id := k.getenv("PAWL_WORKER")
			if id == "" {
				return nil
			}
			text, err := io.ReadAll(io.LimitReader(k.stdin, maxInputFile))
			if err != nil {
				return err
			}
			var event struct {
				Again bool `json:"stop_hook_active"`
			}
			if json.Unmarshal(text, &event) == nil && event.Again { // anything else is no reason to let go
				return nil
			}
			return k.on(func(ctx context.Context, cr *crew.Crew, _ []string) error { return k.hold(ctx, cr, id) })(c, nil)
		},
	}
}

// hold keeps the session of a member from ending, unless it has submitted its work.
func (k *crewApp) hold(ctx context.Context, cr *crew.Crew, id string) error {
	epoch, err := k.epoch()
	if err != nil {
		return err
	}
	left, err := cr.Unsubmitted(ctx, id, epoch)
	if err != nil || left == "" {
		return err
	}
	console.Say(k.stderr, "not submitted", left)
	console.Say(k.stderr, "hint", `commit what belongs to the task, and end with: pawl crew submit; or, if it cannot be done, with: pawl crew fail --reason "..."`)
	return exit{codeGoOn}
}
