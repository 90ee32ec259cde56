package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// ago DAYS JOBS [open] stores jobs of one step each that were submitted, and
// canceled unless they are to be open, so many days ago.
func ago(ts *testscript.TestScript, _ bool, args []string) {
	days, err := strconv.Atoi(args[0])
	ts.Check(err)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	st, err := openTest(ts.Getenv("PAWL_DATABASE"))
	ts.Check(err)
	defer st.Close()
	at, mint := pawl.Micros(time.Now().AddDate(0, 0, -days)), storetest.NewMint()
	ts.Check(st.Do(context.Background(), &store.Query{}, func(*store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(at)
		for range n {
			j, s := &pawl.Job{ID: mint.ID(at), Workspace: "default", Workflow: "flow"}, &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}}
			b.AddJob(j)
			b.AddStep(j, s)
			if len(args) < 3 {
				b.MoveStep(j, s, lifecycle.StepCancel)
				b.MoveJob(j, lifecycle.JobCancel)
			}
		}
		return &b.Changes, nil
	}))
}

func openTest(database string) (store.Store, error) {
	if strings.HasPrefix(database, "postgres") {
		return postgres.Open(context.Background(), postgres.Config{URL: database})
	}
	return sqlite.Open(context.Background(), sqlite.Config{Path: database})
}
