package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/crew"
)

const crewInitLong = `Make the folder of the crew, .worker-state, in the main worktree of the repository, and let git
ignore it by a line in .git/info/exclude. Before that the version of git is checked (2.38 or
newer), and after it, with a second process, that locks work on this file system. What exists
already stays, so the command may be repeated.

--agents-md writes what agents have to know into AGENTS.md, and into the skill
.claude/skills/pawl-crew/SKILL.md: a section between two lines that mark it. What you have
written outside of it stays; the section is replaced when the command is repeated. Commit both
files, so that the worktrees of members have them.`

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
