package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
)

const checkpointLong = `Write the ends of the trails of all jobs, workers and schedules, in every workspace: a
header, and a line of JSON for each with its kind, key, id, sequence and hash, by kind
and key, and for each anchor of retention. The end of a job that has ended seals its
steps. The header has the time, the counts, and the SHA-256 of all lines after it.

Keep checkpoints where whoever can write to the database cannot: "pawl audit compare"
tells what was taken out since, or changed and hashed anew, which the database alone
cannot tell.

--output writes a file, whole or not at all; otherwise the checkpoint goes to stdout.`

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

func (a *app) checkpoint(ctx context.Context, path string) (err error) {
	s, err := a.openExisting(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if path == "" {
		_, err := store.WriteCheckpoint(ctx, s, time.Now(), a.stdout, "")
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".pawl-checkpoint-*")
	if err != nil {
		return fileError(path, err)
	}
	defer os.Remove(f.Name()) // which is not there any more if all went well
	head, err := writeBuffered(f, func(w io.Writer) (*store.CheckpointHead, error) {
		return store.WriteCheckpoint(ctx, s, time.Now(), w, filepath.Dir(path))
	})
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fileError(path, err)
	}
	_, err = fmt.Fprintf(a.stderr, "%d leaves, digest %s\n", head.Leaves, head.Digest)
	return err
}

// writeBuffered writes a file that is on the disk when it returns.
func writeBuffered(f *os.File, write func(io.Writer) (*store.CheckpointHead, error)) (*store.CheckpointHead, error) {
	b := bufio.NewWriter(f)
	head, err := write(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return head, errors.Join(err, f.Close())
}

const compareLong = `Compare a checkpoint with a newer one, or with the database. Named are entities that
are missing though no anchor of retention counts them, whose sequence went back, or of
which the row that was their last one has another hash. With two files an entity that
has gone on since cannot be checked, for a file has its last row alone: it is counted.

A file is checked against the digest in its header; keep that elsewhere too, or the
whole file. Exit code 1 if anything is found.`

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
	bindForm(c, &form, "{ok, same, checked, went_on, added, removed, differences_count, differences}")
	return c
}

func (a *app) compare(ctx context.Context, args []string, form string) (err error) {
	old, err := openCheckpoint(args[0])
	if err != nil {
		return err
	}
	defer old.Close()
	c := &store.Comparison{Old: old.CheckpointReader}
	if len(args) == 2 {
		is, err := openCheckpoint(args[1])
		if err != nil {
			return err
		}
		defer is.Close()
		if is.Head.At < old.Head.At {
			return usage("give the older one first", "%s is of %s, and %s of %s", args[0], old.Head.At, args[1], is.Head.At)
		}
		c.New = is.CheckpointReader
		return a.tellDifferences(ctx, c, form)
	}
	s, err := a.openExisting(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f, err := os.CreateTemp("", "pawl-checkpoint-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := writeBuffered(f, func(w io.Writer) (*store.CheckpointHead, error) {
		return store.WriteCheckpoint(ctx, s, time.Now(), w, "")
	}); err != nil {
		return err
	}
	is, err := openCheckpoint(f.Name())
	if err != nil {
		return err
	}
	defer is.Close()
	c.New, c.Row = is.CheckpointReader, store.RowOf(s)
	return a.tellDifferences(ctx, c, form)
}

type checkpointFile struct {
	*store.CheckpointReader
	io.Closer
}

func openCheckpoint(path string) (*checkpointFile, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	r, err := store.ReadCheckpoint(bufio.NewReader(f))
	if err != nil {
		return nil, errors.Join(&pawl.Error{Kind: pawl.Invalid, Message: path + ": " + err.Error()}, f.Close())
	}
	return &checkpointFile{r, f}, nil
}

func (a *app) tellDifferences(ctx context.Context, c *store.Comparison, form string) error {
	r, err := trail.Compare(ctx, c, func(d store.Difference) {
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
