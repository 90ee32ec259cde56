// Package client is Pawl for Go programs: it submits jobs and waits for them, decides
// approvals, operates jobs and workers, and reads what happened and why.
//
// A Client comes from package local, which opens a database and runs the engine in this
// process:
//
//	c, err := local.Open(ctx, "pawl.db", local.Config{})
//
// local.OpenPool does the same on the PostgreSQL database of a pool, and package
// pawltest in a test. Or it comes from Open, which uses a server ("pawl server", "pawl
// dev") over HTTP:
//
//	c, err := client.Open(ctx, "https://pawl.example.com", client.Config{})
//
// Both give the same Client; see "Servers" for what a server cannot do.
//
// Its services have the verbs of the command line: "pawl job cancel" is c.Jobs.Cancel.
// Errors are those of package pawl: pawl.KindOf returns the kind of one. A Client and
// its services are safe for concurrent use.
//
// # Servers
//
// A client of a server sends each change under a request id, its own or a random one. A
// request whose answer was lost is sent again, up to 3 times, and has one effect; so is
// one that meets a busy server. After that, and if the server is out of reach, the error
// is of kind Unavailable, and names the server. With a request id of your own you can
// then repeat the request yourself, for an hour.
//
// A worker works on a client of a server, too: give it to worker.New. Its handlers cannot
// complete steps in transactions (worker.CompleteTx).
//
// The state is the server's: transactions of yours (SubmitTx), the folder of a
// Submission and Private jobs need a client from package local. They are errors of kind
// Invalid. Version.Dir is empty for what was registered through a server,
// and Stuck returns 100 jobs at most.
//
// # Transactions
//
// SubmitTx of Jobs submits in a transaction of yours, so that a job exists exactly if your
// rows do:
//
//	tx, err := pool.Begin(ctx)
//	_, err = tx.Exec(ctx, "insert into orders ...")
//	_, err = c.Jobs.SubmitTx(ctx, tx, client.Submission{Workflow: charge, Inputs: order})
//	err = tx.Commit(ctx)
//
// On PostgreSQL the transaction is a pgx.Tx, of any pool or connection, or a *sql.Tx of
// any driver; on SQLite a *sql.Tx on the same file. It has to be on the database of the
// client, and the rows of its earlier queries have to be closed. On SQLite use a driver
// that is built on modernc.org/sqlite, as Pawl is: two copies of SQLite in one process
// break each other's locks.
//
// SubmitTx writes new rows only and locks no existing row, so a transaction may stay
// open for long and delays no other. (On SQLite a writer delays all other writers.)
// Only a submission with the same request id in another transaction waits for its end, as
// it must, and then returns the same job; one without a transaction is refused until then.
// Under REPEATABLE READ and SERIALIZABLE the second of two such transactions fails and has
// to be run again, as is usual there.
//
// A job exists once it is committed: until then no Get, Wait or List knows it. Its time
// of creation is that of SubmitTx. A process that evaluates jobs ("pawl server", or a
// client that is not Passive) starts it, in a commit of its own.
//
// On PostgreSQL the commit wakes it, by NOTIFY. PostgreSQL commits transactions that
// notify one after the other; if that is too slow for you, set local.Config.QuietTx and
// call Hint after the commit. On SQLite always call Hint. Without it the job starts
// within the 3 seconds of a poll.
//
// For a step whose effects are in the same database see worker.CompleteTx.
package client

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/remote"
)

// Config has the defaults for the requests of a client. The zero value is ready to use.
type Config struct {
	Workspace string // of requests that name none; default pawl.DefaultWorkspace
	Actor     string // for the audit trail, of requests that name none; default "client"

	// Token is the secret of a token that a server of Open asks for. It is sent to no other
	// server, and the audit trail has the token's name instead of Actor. Empty: none is sent.
	Token string

	// CA has the certificates, in PEM, that the certificate of a server of Open is signed by.
	// Empty: those of the system.
	CA []byte

	// Cert and Key are the certificate by which a server of Open knows this client, and its key,
	// in PEM. Empty: it shows none.
	Cert, Key []byte
}

// A Client uses one engine.
type Client struct {
	Jobs      *Jobs      // submit and change jobs
	Steps     *Steps     // change single steps
	Approvals *Approvals // decide approvals, and send signals
	Inspect   *Inspect   // what happened, and why
	Workflows *Workflows // the registered workflows
	Schedules *Schedules // jobs at the times of a cron expression
	Tokens    *Tokens    // by which programs use a server
	Webhooks  *Webhooks  // send events to URLs
	Queues    *Queues    // limits
	Workers   *Workers   // the processes that run steps
	Audit     *Audit     // remove old records, and withhold payload

	engine link.Engine
	close  func() error
}

// Over returns a client of an engine. Close calls the function, if it is not nil. Users
// call local.Open.
func Over(e link.Engine, c Config, close func() error) *Client {
	c.Workspace, c.Actor = cmp.Or(c.Workspace, pawl.DefaultWorkspace), cmp.Or(c.Actor, "client")
	b := base{e, c}
	return &Client{
		Jobs: &Jobs{b}, Steps: &Steps{b}, Approvals: &Approvals{b}, Inspect: &Inspect{b}, Workflows: &Workflows{b},
		Schedules: &Schedules{b}, Tokens: &Tokens{b}, Webhooks: &Webhooks{b}, Queues: &Queues{b}, Workers: &Workers{b}, Audit: &Audit{b}, engine: e, close: close,
	}
}

// Open returns a client of the server at a URL: https://HOST, or http://ADDRESS for one on
// the loopback interface, without a path. It asks the server for its version at once. A
// URL that may not be used, and a server that speaks another version of the API, are
// errors of kind Invalid; a server out of reach is one of kind Unavailable; a token that the
// server does not accept, or that does not have the role for a request, is one of kind Refused.
func Open(ctx context.Context, url string, c Config) (*Client, error) {
	e, err := remote.Open(ctx, url, remote.Config{Token: c.Token, CA: c.CA, Cert: c.Cert, Key: c.Key})
	if err != nil {
		return nil, err
	}
	return Over(e, c, func() error {
		e.Close()
		return nil
	}), nil
}

// Close ends the client, and the engine that was opened for it. The next engine on the
// database, or the server, continues what runs.
func (c *Client) Close() error {
	if c.close == nil {
		return nil
	}
	return c.close()
}

// Hint makes the engines look at once for what was committed by transactions in which
// SubmitTx was called. It returns at once. It only saves time: engines also poll, and
// on PostgreSQL the commit itself wakes them.
func (c *Client) Hint() { c.engine.Hint() }

// Link returns the engine for a worker on this client; see worker.New.
func (c *Client) Link() link.Worker { return c.engine }

// base is the common part of the services.
type base struct {
	engine link.Engine
	config Config
}

// by returns a change with the actor that it has, or the client's.
func (b *base) by(c pawl.Change) pawl.Change {
	c.Actor = cmp.Or(c.Actor, b.config.Actor)
	return c
}

func (b *base) workspace(named string) string { return cmp.Or(named, b.config.Workspace) }

// pageRows is how many records of a list are read at once.
const pageRows = 100

// eachPage calls f with each record of a list, page by page. It ends with the first error.
func eachPage[T any](f func(*T) error, page func(before string) (records []T, next string, err error)) error {
	for before := ""; ; {
		records, next, err := page(before)
		if err != nil {
			return err
		}
		for i := range records {
			if err := f(&records[i]); err != nil {
				return err
			}
		}
		if before = next; next == "" {
			return nil
		}
	}
}

// Queues reads queues, pauses them, and limits how much of a queue, or of a depth of jobs, runs
// at once.
type Queues struct{ base }

// Limit sets limits, all or none; a negative number of slots removes a limit. Names are
// queue/NAME, for steps in progress, and depth/0 to depth/5, for the slots of running
// jobs of that depth. What already runs continues.
func (q *Queues) Limit(ctx context.Context, set []pawl.Quota, c pawl.Change) error {
	limits := make([]pawl.Quota, len(set))
	for i, l := range set {
		l.Workspace = q.workspace(l.Workspace)
		limits[i] = l
	}
	return q.engine.SetQuotas(ctx, limits, q.by(c))
}

// Reserve keeps slots of the limit of a depth from jobs, until Release or until ttl has
// passed: 1 s to 1 h, in whole seconds. They count as taken. An empty workspace is the
// client's. Too few free slots are an error of kind Conflict.
func (q *Queues) Reserve(ctx context.Context, workspace string, depth, slots int, ttl time.Duration, c pawl.Change) (pawl.ReservationView, error) {
	return q.engine.Reserve(ctx, q.workspace(workspace), depth, slots, ttl, q.by(c))
}

// Release ends a reservation. One that has ended already is an error of kind NotFound.
func (q *Queues) Release(ctx context.Context, workspace string, id pawl.ID, c pawl.Change) (pawl.ReservationView, error) {
	return q.engine.Release(ctx, q.workspace(workspace), id, q.by(c))
}

// List lists the queues of a workspace that steps are in, that live workers serve, that have a
// limit, or that are paused. An empty workspace is the client's.
func (q *Queues) List(ctx context.Context, workspace string) ([]pawl.QueueView, error) {
	return q.engine.Queues(ctx, q.workspace(workspace))
}

// Get returns a queue that List has, else an error of kind NotFound.
func (q *Queues) Get(ctx context.Context, workspace, name string) (*pawl.QueueView, error) {
	return q.engine.Queue(ctx, pawl.QueueName{Workspace: q.workspace(workspace), Name: name})
}

// Pause keeps the steps of a queue from being claimed until Resume; those that run go on. Other
// processes learn of it by a hint, at the latest within a second. The receipt is of the pause. A
// queue that is paused is an error of kind Conflict.
func (q *Queues) Pause(ctx context.Context, workspace, name string, c pawl.Change) (pawl.Receipt, error) {
	return q.engine.PauseQueue(ctx, pawl.QueueName{Workspace: q.workspace(workspace), Name: name}, q.by(c))
}

// Resume ends the pause of a queue. A queue that is not paused is an error of kind Conflict.
func (q *Queues) Resume(ctx context.Context, workspace, name string, c pawl.Change) (pawl.Receipt, error) {
	return q.engine.ResumeQueue(ctx, pawl.QueueName{Workspace: q.workspace(workspace), Name: name}, q.by(c))
}

// History calls f with the moves of the pauses of a queue that are kept, the newest pause
// first. It ends with the first error of f.
func (q *Queues) History(ctx context.Context, workspace, name string, f func(pawl.Transition) error) error {
	return q.engine.QueueHistory(ctx, pawl.QueueName{Workspace: q.workspace(workspace), Name: name}, f)
}

// Limits lists the limits of a workspace by name, with what is taken of each. An empty
// workspace is the client's.
func (q *Queues) Limits(ctx context.Context, workspace string) ([]pawl.QuotaView, error) {
	return q.engine.Quotas(ctx, q.workspace(workspace))
}
