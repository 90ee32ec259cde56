// Command soak shows whether Pawl stays as fast as at the beginning while a transaction keeps
// an old snapshot of the database open:
//
//	go run ./internal/lab/pgtest/run -- go run ./internal/lab/soak -for 10m -rate 200
//
// Jobs are submitted at a fixed rate, whether or not earlier ones have ended. Meanwhile one
// transaction (REPEATABLE READ) stays open from the beginning to the end, so that nothing can
// be vacuumed, and another one opens and closes repeatedly. The run is divided into eight
// windows. Latency is measured from the moment at which a job was to be submitted. The cost of
// the indexes is the number of entries that their scans pass, by the server's own statistics:
// counts, which do not depend on the machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

func main() { os.Exit(run()) }

func run() int {
	c := config{report: os.Stdout}
	flag.DurationVar(&c.length, "for", 10*time.Minute, "how long")
	flag.IntVar(&c.rate, "rate", 200, "jobs in a second")
	flag.StringVar(&c.url, "postgres", os.Getenv(pgtest.Variable), "URL of a PostgreSQL server on which databases may be made")
	flag.Parse()
	if c.url == "" || c.rate < 1 || c.length < time.Second || flag.NArg() > 0 {
		flag.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := soak(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	faults := append(r.faults(), r.slower()...)
	for _, f := range faults {
		fmt.Fprintln(os.Stderr, "not flat:", f)
	}
	return min(len(faults), 1)
}
