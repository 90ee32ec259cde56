package local_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// An order and the job that ships it are committed together, and so are the shipping
// and what it takes from the stock: neither can be there without the other, whatever is
// killed and when.
func Example_transaction() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "orders")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")

	c, err := local.Open(ctx, path, local.Config{}) // on PostgreSQL: its URL
	check(err)
	defer c.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "create table shop (orders int, stock int); insert into shop values (0, 10)")
	check(err)

	w, err := worker.New(c, worker.Config{})
	check(err)
	worker.Handle(w, "ship", func(ctx context.Context, pieces int) (int, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "update shop set stock = stock - ?", pieces); err != nil {
			return 0, err
		}
		if err := worker.CompleteTx(ctx, tx, worker.TaskOf(ctx), pieces); err != nil {
			return 0, err
		}
		return pieces, tx.Commit()
	})
	drained := make(chan error)
	go func() { drained <- w.Run(ctx) }()

	def, err := workflow.File{Name: "order", Inputs: map[string]workflow.InputSchema{"pieces": {Type: workflow.TypeInteger}},
		Steps: []workflow.Step{{ID: "ship", Handler: "ship", With: "${{ inputs.pieces }}"}}}.Build()
	check(err)
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	_, err = tx.ExecContext(ctx, "update shop set orders = orders + 1")
	check(err)
	jobs, err := c.Jobs.SubmitTx(ctx, tx, client.Submission{Workflow: def, Inputs: map[string]int{"pieces": 3}})
	check(err)
	check(jobs[0].Err)
	check(tx.Commit())
	c.Hint() // SQLite sends no notification

	job, err := c.Jobs.Wait(ctx, jobs[0].ID)
	check(err)
	var orders, stock int
	check(db.QueryRowContext(ctx, "select orders, stock from shop").Scan(&orders, &stock))
	fmt.Println(job.State, orders, stock)
	stop()
	check(<-drained)
	// Output: COMPLETED 1 7
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
