package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/sleep"
)

func (k *crewApp) newList() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the members",
		Long: `List the members: state, task, attempt, how long they have been in their state, how long ago they
gave a sign of life, and what a person should know.`,
		Example: "  pawl crew list\n  pawl crew list --json",
		Args:    want(0, 0, "no argument"),
		RunE: k.on(func(_ context.Context, cr *crew.Crew, _ []string) error {
			board, err := cr.Board()
			if err != nil {
				return err
			}
			return k.listed(form, board, len(board), "there are no members; add one with: pawl crew spawn MEMBER", console.CrewRows(board, cr.Now()))
		}),
	}
	k.bind(c, &form, "a list of members, as \"pawl crew show\" has them")
	return c
}

func (k *crewApp) newShow() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show [MEMBER]", Short: "Show all about a member",
		Long:    "Show the state of a member, its task, worktree and branch, its program, its review and whether\nit waits to land.",
		Example: "  pawl crew show auth\n  pawl crew show auth --json",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(_ context.Context, cr *crew.Crew, args []string) error {
			id, err := k.member(args)
			if err != nil {
				return err
			}
			s, err := cr.Status(id)
			if err != nil {
				return err
			}
			return k.show(form, s, func() error {
				console.CrewMember(k.stdout, s, cr.Now(), k.outZone())
				return nil
			})
		}),
	}
	k.bind(c, &form, "member, assignment, heartbeat, run, review and queue entry")
	return c
}

func (k *crewApp) newHistory() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "history [MEMBER]", Short: "List the changes of a member",
		Long:    "List the changes of a member, the oldest first: when, what, by whom and why. It is an audit trail;\n\"pawl audit verify --file\" checks the file that it is read from.",
		Example: "  pawl crew history auth\n  pawl crew history auth --json",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(_ context.Context, cr *crew.Crew, args []string) error {
			id, err := k.member(args)
			if err != nil {
				return err
			}
			rows := console.WorkerHistory(k.stdout, form == formJSON, k.outZone())
			if err := cr.History(id, func(e *audit.Entry) error {
				t := pawl.TransitionOf(e)
				return rows.Add(&t)
			}); err != nil {
				return err
			}
			return rows.End()
		}),
	}
	k.bind(c, &form, "a list of moves")
	return c
}

func (k *crewApp) newLog() *cobra.Command {
	form, lines, epoch := formText, 0, int64(0)
	c := &cobra.Command{
		Use: "log [MEMBER]", Aliases: []string{"logs"}, Short: "Show what the program of a member has printed",
		Long: `Show what the program of a member has printed when it ran last, or for the assignment of an
--epoch: its stdout, and on stderr its stderr. At most the last MiB of each is shown.`,
		Example: "  pawl crew log auth\n  pawl crew log auth --tail 20",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(_ context.Context, cr *crew.Crew, args []string) error {
			if lines < 0 || epoch < 0 {
				return usage("", "--tail %d, --epoch %d: want 0 or more", lines, epoch)
			}
			id, err := k.member(args)
			if err != nil {
				return err
			}
			o, err := cr.OutputOf(id, epoch, lines)
			if err != nil {
				return err
			}
			return k.show(form, o, func() error { return k.printed(o) })
		}),
	}
	k.bind(c, &form, "both streams as texts")
	c.Flags().IntVar(&lines, "tail", 0, "only so many of the last lines of each stream; 0 is all")
	c.Flags().Int64Var(&epoch, "epoch", 0, "the number of an assignment; default the newest for which it ran")
	return c
}

func (k *crewApp) printed(o *crew.Output) error {
	if o.Stdout+o.Stderr == "" {
		fmt.Fprintf(k.stderr, "the program of member %s has printed nothing\n", o.ID)
	}
	for line := range strings.Lines(o.Stderr) {
		fmt.Fprintln(k.stderr, k.sanitize(strings.TrimSuffix(line, "\n")))
	}
	for line := range strings.Lines(o.Stdout) {
		if _, err := fmt.Fprintln(k.stdout, k.sanitize(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

func (k *crewApp) newWatch() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "watch", Short: "Watch the members",
		Long: `Watch the members until the command is interrupted (exit code 0). On a terminal a table is redrawn.
Elsewhere each change of a member is a line, the first ones how they are now. With --json such a
line is what "pawl crew show" has.`,
		Example: "  pawl crew watch\n  pawl crew watch --json",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			if k.json {
				form = formJSON
			}
			cr, err := k.open(c.Context())
			if err != nil {
				return err
			}
			return k.watch(c.Context(), cr, form)
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text: for people; json: the member on a line, after each change")
	return c
}

// watch shows the members until ctx ends.
func (k *crewApp) watch(ctx context.Context, cr *crew.Crew, form string) error {
	show, end := k.boards(cr, form)
	defer end()
	for {
		board, err := cr.Board()
		if err == nil {
			err = show(board)
		}
		if err != nil || !sleep.For(ctx, crewPause) {
			return err
		}
	}
}

// boards returns how the members are shown in a form, and how that ends.
func (k *crewApp) boards(cr *crew.Crew, form string) (show func([]crew.Status) error, end func()) {
	if form == formText && k.screen.Terminal && k.width() > 0 {
		d := console.NewDrawing(console.NewLive(k.stderr, k.screen, console.Frame{Zone: k.talkZone()}), k.logs)
		return func(board []crew.Status) error {
			d.Paint(func(f console.Frame) []string { return console.DrawCrew(board, f) })
			return nil
		}, d.Close
	}
	last := map[string]string{}
	return func(board []crew.Status) error {
		for i := range board {
			s := &board[i]
			line, is, err := crewLine(s, form, cr.Now(), k.outZone())
			if err != nil {
				return err
			}
			if is == last[s.ID] {
				continue
			}
			last[s.ID] = is
			if _, err := fmt.Fprintln(k.stdout, line); err != nil {
				return err
			}
		}
		return nil
	}, func() {}
}

// crewLine returns a member as a line, and what tells whether it has changed since.
func crewLine(s *crew.Status, form string, now time.Time, zone *time.Location) (line, is string, err error) {
	if form == formText {
		line = console.CrewLine(s, now, zone)
		if s.Member == nil {
			return line, s.Problem, nil
		}
		return line, line, nil
	}
	line, err = jsonLine(s)
	return line, line, err
}
