package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
)

func newAudit(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "audit", Short: "List, check, export or compare the audit trail",
		Long:    "List, check, export or compare the audit trail. It has a row for every move of every job, step\nand worker, each sealed with the SHA-256 of itself and of the row before it.",
		Example: "  pawl audit list --actor token:ci\n  pawl audit verify\n  pawl audit export > trail.jsonl",
	})
	c.AddCommand(newAuditList(a), newAuditVerify(a), newAuditExport(a), newAuditCheckpoint(a), newAuditCompare(a))
	return c
}

const verifyLong = `Check the audit trails of jobs, steps, workers, schedules, tokens, webhooks and pauses of
queues, or that of one job:

  every row is a legal move, and none is missing, out of order or changed
  the rows lead to what is stored
  inputs, outputs, errors and the data of signals are what the rows seal, and are
  missing only if a redaction of the job withholds them
  no step that was counted out of its job is missing with all its rows

The first row that breaks a rule is named, with exit code 1. What retention removed is
reported, and its anchors in the trail are checked. Refused facts came too late and are
in no trail; they are counted.

--file checks an exported trail without a database, or all *.jsonl in a folder, such as
the histories of a crew (.worker-state/history) or the trails of a load agent (trail in
its --state-dir); - is standard input. An export has
no inputs, outputs and errors, so whether they are withheld is not checked. It also
cannot show that steps of a job that has not ended are missing, that a trail ends too
early, or that a whole job is missing. A database cannot show that the last anchors are
missing, or a job with its steps and all their rows: "pawl audit compare" can. Jobs that
were created before the trail had seals are checked without them.`

func newAuditVerify(a *app) *cobra.Command {
	form, file := formText, ""
	c := &cobra.Command{
		Use: "verify [JOB]", Short: "Check the audit trail", Long: verifyLong,
		Example: "  pawl audit verify\n  pawl audit verify last -o json\n  pawl audit verify --file trail.jsonl\n  pawl audit verify --file .worker-state/history",
		Args:    want(0, 1, "one JOB at most"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if file != "" && len(args) > 0 {
				return usage("", "--file takes no JOB")
			}
			v, err := a.verified(c.Context(), file, args)
			if err != nil {
				return err
			}
			if err := console.Verdict(a.stdout, a.stderr, v, form == formJSON); err != nil {
				return err
			}
			if v.Fault != nil {
				return exit{codeFailed}
			}
			return nil
		},
	}
	bindForm(a, c, &form, "{ok, entities, entries, fault, refused, removed}")
	c.Flags().StringVar(&file, "file", "", "check this export (JSON lines; - is standard input) or folder instead of a database")
	return c
}

// verified checks an exported trail, or that of the database or of a job in it.
func (a *app) verified(ctx context.Context, file string, args []string) (v *pawl.Verdict, err error) {
	switch file {
	case "":
		err = a.withTrails(ctx, args, func(cl *client.Client, job pawl.ID) (err error) {
			v, err = cl.Audit.Verify(ctx, job, progress(a, func(n int64) string { return fmt.Sprintf("%d entries checked", n) }))
			return err
		})
		return v, err
	case "-":
		return trail.VerifyExport(a.stdin), nil
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return verifiedFolder(file)
	}
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return trail.VerifyExport(f), nil
}

// verifiedFolder checks the trails in the files of a folder, until one has a fault, which then names it.
func verifiedFolder(dir string) (*pawl.Verdict, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, files.Error(dir, err)
	}
	list = slices.DeleteFunc(list, func(e os.DirEntry) bool { return filepath.Ext(e.Name()) != ".jsonl" })
	if len(list) == 0 {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: "there is no file *.jsonl in " + console.Shell(dir), Hint: "name a folder of trails, such as .worker-state/history"}
	}
	all := &pawl.Verdict{OK: true}
	for _, e := range list {
		f, err := files.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		v := trail.VerifyExport(f)
		_ = f.Close() // it was only read
		all.Entities, all.Entries = all.Entities+v.Entities, all.Entries+v.Entries
		if v.Fault != nil {
			all.OK, all.Fault = false, v.Fault
			all.Fault.Message = e.Name() + ": " + all.Fault.Message
			break
		}
	}
	return all, nil
}

func newAuditExport(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "export [JOB]", Short: "Write the audit trail as JSON lines",
		Long:    "Write the audit trails of jobs, steps, workers, schedules, tokens, webhooks and pauses of queues,\nor that of one job and its steps, to stdout: one row as JSON on each line.",
		Example: "  pawl audit export > trail.jsonl\n  pawl audit export last",
		Args:    want(0, 1, "one JOB at most"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withTrails(c.Context(), args, func(cl *client.Client, job pawl.ID) error { return cl.Audit.Export(c.Context(), job, a.stdout) })
		},
	}
}

// withTrails passes a client to f, with the id of the named job, or the zero id.
func (a *app) withTrails(ctx context.Context, args []string, f func(cl *client.Client, job pawl.ID) error) error {
	return a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if len(args) == 0 {
			return f(cl, pawl.ID{})
		}
		id, err := a.jobOf(ctx, cl, args[0])
		if err != nil {
			return err
		}
		return f(cl, id)
	})
}

const checkpointLong = `Write the ends of the trails of all jobs, workers and schedules, in every workspace: a
header, then a line of JSON for each, sorted by kind and key, with its kind, key, id,
sequence and hash, and a line for each anchor of retention. The end of a job that has
ended seals its steps. The header has the time, the counts, and the SHA-256 of all lines
after it.

Keep checkpoints where those who can write to the database cannot write. "pawl audit
compare" then shows what was removed since, or changed and hashed again, which the
database alone cannot show.

--output writes a file, completely or not at all; by default the checkpoint goes to
stdout.`

func newAuditCheckpoint(a *app) *cobra.Command {
	path := ""
	c := &cobra.Command{
		Use: "checkpoint", Short: "Write the ends of all trails", Long: checkpointLong,
		Example: "  pawl audit checkpoint -o /mnt/elsewhere/2026-01-31.jsonl\n  pawl audit checkpoint > checkpoint.jsonl",
		Args:    want(0, 0, "no argument"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.checkpoint(c.Context(), path) },
	}
	c.Flags().StringVarP(&path, "output", "o", "", "the file to write; default stdout")
	return c
}

func (a *app) checkpoint(ctx context.Context, path string) error {
	return a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if path == "" {
			_, err := cl.Audit.Checkpoint(ctx, a.stdout, "")
			return err
		}
		var head *pawl.Checkpoint
		err := files.Replace(path, func(w io.Writer) (err error) {
			head, err = cl.Audit.Checkpoint(ctx, w, filepath.Dir(path))
			return err
		})
		if err == nil {
			_, err = fmt.Fprintf(a.stderr, "%d leaves, digest %s\n", head.Leaves, head.Digest)
		}
		return err
	})
}

const compareLong = `Compare a checkpoint with a newer one, or with the database. The command names each
entity that is missing although no anchor of retention counts it, whose sequence went
back, or whose row at the end of the old checkpoint has another hash now. Of two files,
the newer one has only the last row of each entity, so entities that have moved since
cannot be checked; they are counted.

A file is checked against the digest in its header; keep the digest in another place,
too, or the whole file. The exit code is 1 if anything is found.`

func newAuditCompare(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "compare OLD [NEW]", Short: "Compare a checkpoint with a newer one, or with the database", Long: compareLong,
		Example: "  pawl audit compare /mnt/elsewhere/2026-01-31.jsonl\n  pawl audit compare january.jsonl february.jsonl -o json",
		Args:    want(1, 2, "an OLD checkpoint, and a NEW one at most"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.compare(c.Context(), args, form)
		},
	}
	bindForm(a, c, &form, "{ok, same, checked, went_on, added, removed, differences_count, differences}")
	return c
}

func (a *app) compare(ctx context.Context, args []string, form string) error {
	old, err := openCheckpoint(args[0])
	if err != nil {
		return err
	}
	defer old.Close()
	c := &trail.Comparer{Old: old.CheckpointReader}
	if len(args) == 1 && a.server != "" {
		return a.compareServer(ctx, c, form)
	}
	if len(args) == 1 {
		return a.withStore(ctx, func(s store.Store) error {
			is, err := trail.Current(ctx, s)
			if err != nil {
				return err
			}
			defer is.Close()
			c.New, c.Row = is.CheckpointReader, trail.RowOf(s)
			return a.showDifferences(ctx, c, form)
		})
	}
	is, err := openCheckpoint(args[1])
	if err != nil {
		return err
	}
	defer is.Close()
	if is.Head.At < old.Head.At {
		return usage("name the older one first", "%s is of %s, and %s of %s", args[0], old.Head.At, args[1], is.Head.At)
	}
	c.New = is.CheckpointReader
	return a.showDifferences(ctx, c, form)
}

// compareServer compares a checkpoint with one that the server makes now.
func (a *app) compareServer(ctx context.Context, c *trail.Comparer, form string) error {
	is, err := os.CreateTemp("", "pawl-checkpoint-*")
	if err != nil {
		return err
	}
	defer os.Remove(is.Name())
	defer is.Close()
	err = a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		_, err := cl.Audit.Checkpoint(ctx, is, "")
		return err
	})
	if err != nil {
		return err
	}
	if _, err := is.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if c.New, err = trail.ReadCheckpoint(is); err != nil {
		return err
	}
	return a.showDifferences(ctx, c, form)
}

// openCheckpoint opens the file of a checkpoint.
func openCheckpoint(path string) (*trail.Checkpoint, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	return trail.OpenCheckpoint(f, path)
}

func (a *app) showDifferences(ctx context.Context, c *trail.Comparer, form string) error {
	r, err := trail.Compare(ctx, c, func(d trail.Difference) {
		if form != formJSON {
			console.Difference(a.stdout, &d)
		}
	})
	switch {
	case err != nil:
		return err
	case form == formJSON:
		if err := console.JSON(a.stdout, r); err != nil {
			return err
		}
	case r.OK:
		console.Agreement(a.stdout, r)
	}
	if !r.OK {
		return exit{codeFailed}
	}
	return nil
}
