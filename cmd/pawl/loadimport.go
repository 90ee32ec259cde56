package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/load/fiojob"
)

const loadImportLong = `Print the load file for a job FILE of fio, and on stderr the options that it leaves out, since they
cannot change what is measured. An option that is not understood is an error.

FILE has one job: rw, bs, bssplit, size, filesize, nrfiles, numjobs, ioengine, iodepth, direct,
runtime with time_based, ramp_time, rate_iops, fsync, fdatasync, end_fsync, random_distribution,
buffer_compress_percentage and others. Where fio gives each job files of its own, all threads use
one set here.

Exit codes: 0 ok, 2 the file has what a load file cannot have, 3 it does not exist.`

func (a *app) newLoadImport() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Turn a job file of fio into a load file", Long: loadImportLong,
		Example: "  pawl load import randread.fio > randread.yaml",
		Args:    want(1, 1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			src, err := files.Read(args[0], maxLoadFile)
			if err != nil {
				return err
			}
			yaml, ignored, err := fiojob.Convert(args[0], src)
			if err != nil {
				return err
			}
			for _, i := range ignored {
				fmt.Fprintf(a.stderr, "left out: %s: %s\n", console.Printable(i.Option), i.Why)
			}
			_, err = a.stdout.Write(yaml)
			return err
		},
	}
}
