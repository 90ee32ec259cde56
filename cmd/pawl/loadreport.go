package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// bindLoadForm adds -o, and --json as a short form of it.
func bindLoadForm(a *app, c *cobra.Command, form *string, what string) {
	short := false
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if short {
			*form = formJSON
		}
		return run(c, args)
	}
	bindForm(a, c, form, what)
	c.Flags().BoolVar(&short, "json", false, "the same as -o json")
}

const loadReportLong = `Show the result folder DIR of a load run: the figures of each operation and size, the part of each
agent with its start skew, errors and violated thresholds. All of it is computed from the records of
the agents: percentiles are of all operations together. With --server DIR is the name of a run that
the server shows ("pawl load list").

--html writes one HTML page, with charts of throughput and latencies over time and of latencies by
percentile. It needs no network and no scripts.

Exit codes: 0 ok, 2 DIR is damaged or of another version, 3 it is no result folder, 5 the FILE of
--html exists, or the run has no result, 6 the server is out of reach.`

func (a *app) newLoadReport() *cobra.Command {
	form, page := formText, ""
	c := &cobra.Command{
		Use: "report DIR", Short: "Show the result of a load run", Long: loadReportLong,
		Example: "  pawl load report results/monday\n  pawl load report results/monday --html monday.html\n  pawl load report results/monday --json\n" +
			"  pawl load report monday --server https://pawl.example.com",
		Args: want(1, 1, "one DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if page != "" {
				return a.loadPage(c.Context(), args[0], page)
			}
			s, err := a.loadSummary(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(form, s, func() error { return console.LoadReport(a.stdout, s, a.outZone()) })
		},
	}
	bindLoadForm(a, c, &form, "what summary.json has")
	c.Flags().StringVar(&page, "html", "", "new FILE for the report as an HTML page; - is stdout")
	return c
}

// loadSummary returns what a result says of its run: a folder, or a run of the server.
func (a *app) loadSummary(ctx context.Context, name string) (*report.Summary, error) {
	if a.server != "" {
		return a.farSummary(ctx, name)
	}
	r, err := report.Read(name)
	if err != nil {
		return nil, err
	}
	return &r.Summary, nil
}

// loadPage writes the report as a page into a new file.
func (a *app) loadPage(ctx context.Context, name, path string) error {
	if a.server != "" {
		page, err := a.farPage(ctx, name)
		if err != nil {
			return err
		}
		return a.writePage(path, func(w io.Writer) error {
			_, err := w.Write(page)
			return err
		})
	}
	r, err := report.Read(name)
	if err != nil {
		return err
	}
	return a.writePage(path, r.WriteHTML)
}

// writePage writes a page into a new file.
func (a *app) writePage(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(a.stdout)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("file %s exists already", path), Hint: "name another one, or remove it"}
	}
	if err != nil {
		return files.Error(path, err)
	}
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path)
		return files.Error(path, err)
	}
	fmt.Fprintf(a.stderr, "wrote %s\n", path)
	return nil
}

const loadCompareLong = `Compare the load run whose result folder is B with that of A: by operation the throughput, p50 and
p99, the change from A to B, its 95 % interval, and whether B is better or worse. An interval that
includes 0 is no difference.

The interval is from a bootstrap over the seconds of both runs, without their warm-up: 200 draws
with a fixed seed give the spread, with Student's distribution for the number of seconds, and for
latencies with the 1.6 % that the buckets of histograms allow. Latencies are response times where
there is a rate. Fewer than 5 seconds, or than 1000 operations for p99, are too short to tell. Two
runs of one system on other days may differ by more than their seconds do: repeat what matters.

An operation that only one run has is shown as such. B is worse, too, if operations fail in it and
none does in A.

Runs of other loads are refused, with the keys that differ; --force compares them nevertheless. With
--server A and B are the names of runs that the server shows ("pawl load list").

Exit codes: 0 ok, whatever the verdict, 2 the runs are not comparable, 3 a folder is no result, 5 a
run has no result, 6 the server is out of reach.`

func (a *app) newLoadCompare() *cobra.Command {
	form, force := formText, false
	c := &cobra.Command{
		Use: "compare A B", Short: "Compare the results of two load runs", Long: loadCompareLong,
		Example: "  pawl load compare results/monday results/tuesday\n  pawl load compare before after --json\n" +
			"  pawl load compare monday tuesday --server https://pawl.example.com",
		Args: want(2, 2, "two result folders"),
		RunE: func(c *cobra.Command, args []string) error {
			compared, err := a.compareLoads(c.Context(), args[0], args[1], force)
			if err != nil {
				return err
			}
			return a.show(form, compared, func() error { return console.LoadComparison(a.stdout, compared) })
		},
	}
	bindLoadForm(a, c, &form, "a, b and operations, with measures and verdicts")
	c.Flags().BoolVar(&force, "force", false, "compare runs of other loads, too")
	return c
}

// compareLoads compares two results: folders, or runs of the server.
func (a *app) compareLoads(ctx context.Context, one, other string, force bool) (*report.Comparison, error) {
	if a.server != "" {
		return a.farComparison(ctx, one, other, force)
	}
	from, err := report.Read(one)
	if err != nil {
		return nil, err
	}
	to, err := report.Read(other)
	if err != nil {
		return nil, err
	}
	return report.Compare(from, to, force)
}

func (a *app) newLoadValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE...", Short: "Check load files",
		Long: `Check load files, report every mistake as FILE:LINE:COLUMN, and say what a valid one means. Nothing
is created, and no agent is needed.

Exit codes: 0 all files are valid, 2 one is invalid, 3 one does not exist.`,
		Example: "  pawl load validate examples/load/random-read.yaml",
		Args:    want(1, -1, "a FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			return all(a, args, func(path string) error {
				_, test, err := readLoad(path)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.stdout, "%s: valid (%s)\n", path, test.Name)
				console.LoadTest(a.stdout, test)
				return nil
			})
		},
	}
}

// readLoad reads a load file.
func readLoad(path string) ([]byte, *spec.Test, error) {
	src, err := files.Read(path, maxLoadFile)
	if err != nil {
		return nil, nil, err
	}
	test, err := spec.ParseFile(path, src)
	return src, test, err
}

func (a *app) newLoadSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of load files",
		Long:    "Print the JSON Schema (2020-12) of load files, which editors complete and check files with. It is\nalso docs/load.schema.json.",
		Example: "  pawl load schema > load.schema.json",
		Args:    want(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(spec.Schema())
			return err
		},
	}
}
