package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Errors that stores return.
var (
	// ErrUnknown is returned by Do when the connection was lost during the commit, which may
	// or may not have happened. Ledger.Settle finds out.
	ErrUnknown = errors.New("outcome of the commit is unknown")

	// ErrStale is returned by Do when a record was not at the version that its change assumes,
	// or a new record exists already. Nothing was written.
	ErrStale = errors.New("a record was changed by another writer")

	// ErrKeyHeld is returned by Do when another transaction has taken one of the keys,
	// and was not over in time. Nothing was written.
	ErrKeyHeld = errors.New("an idempotency key is held by another transaction")

	// ErrNotFound is returned by views if there is no such record.
	ErrNotFound = errors.New("not found")
)

// A Store is one database.
type Store interface {
	Ledger
	Joiner
	Views
	Logs
	Wakeups
	Feed
	Retention
	Redactor
	Heads
	Deliveries
	Migrator

	// Opened returns the schema's version when this handle was opened.
	Opened() int

	Close() error
}

// Ledger is the write side.
type Ledger interface {
	// Do runs one write transaction. It reads the records that q names, locked in one order
	// (pools, limits, schedules, tokens, pauses of queues, webhooks, workers, turns, jobs, steps;
	// each by key), passes them to decide, and writes the changes that decide returns, all or
	// nothing. An error of decide rolls back and is returned unchanged; nil changes roll back and return nil. decide must not keep its
	// records after Do has returned an error. It runs again, with other facts, if the facts
	// were outdated; its earlier result is then discarded. The store may keep the records that
	// it has written, so nobody may change them once Do has returned. Do is safe for concurrent
	// use.
	Do(ctx context.Context, q *Query, decide func(*Facts) (*Changes, error)) error

	// Transactions returns how many transactions of Do can run at once; further ones wait. 0
	// means no limit.
	Transactions() int

	// Settle reports whether the entry e of the record k was committed, after ErrUnknown. It
	// waits until the lost transaction is over.
	Settle(ctx context.Context, k EntityKey, e *audit.Entry) (bool, error)

	// Look scans for work of the evaluator. It takes no lock, and may return work that is
	// already being handled.
	Look(ctx context.Context, q LookQuery) (*Agenda, error)

	// Maintain does the periodic work: it deletes expired answers and silent processes, and
	// makes room for the days to come. Many processes may call it at once.
	Maintain(ctx context.Context) error

	// Hold takes the name for the lifetime of this process, or until release. If the name is
	// taken, the error is a *HeldError with the holder's note (JSON). A name is free as soon
	// as its holder has died.
	Hold(ctx context.Context, name string, note []byte) (release func(), err error)

	// Beat records that a process and its worker are alive, in tables or files of their own,
	// and never waits for a transaction of Do. It returns what the worker has to know. On a
	// server it is one statement, or two if the pulse is Unnamed.
	Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error)

	// Observe returns the last beats of the workers in a living state, and the state of the
	// lock "worker/KEY" of each. It draws no conclusion.
	Observe(ctx context.Context) (*health.Report, error)
}

// Joiner writes in transactions that are not the store's own.
type Joiner interface {
	// DoIn is Do within tx, a user's transaction on this database: what decide returns is
	// written if and only if tx commits. tx has a type of the driver that the user works with;
	// for any other type, and for a transaction on another database, the error is of kind
	// Invalid and nothing was done.
	//
	// It reads and locks only Keys and Steps of q. Facts.Jobs has the jobs of those steps;
	// they are not locked and must not be changed. It writes new definitions, jobs and steps,
	// changes of the steps, entries of these, and answers; anything else is an error (see
	// CheckJoined). It locks no other existing row. A definition may stay when tx is rolled
	// back: without a job it is unused and does no harm.
	//
	// If the database supports it, the commit wakes every listener, in this process too, about
	// the topics. decide runs once. After an error tx has to be rolled back.
	DoIn(ctx context.Context, tx any, q *Query, wake []Topic, decide func(*Facts) (*Changes, error)) error
}

// A Query names what a transaction has to see. Records named by several fields are read once.
// Records that do not exist are missing from the Facts. No body (inputs, items, output, error,
// metadata) is read unless a field says so.
type Query struct {
	Keys      []IdempotencyKey
	Pools     []Pool              // locked: no two transactions that name a pool overlap
	Names     []pawl.WorkflowName // their newest versions
	Limits    []pawl.WorkflowName // the limits of these workspaces and names, locked
	Schedules []rowkey.Schedule   // locked, with inputs
	Scheduled []pawl.ScheduleName // the schedules with these names that are not removed, locked, with inputs
	Tokens    []rowkey.Token      // locked
	Tokened   []string            // the active tokens with these names, locked
	Pauses    []rowkey.QueuePause // locked
	Paused    []pawl.QueueName    // the pauses of these queues that last, locked
	Webhooks  []rowkey.Webhook    // locked
	Hooked    []pawl.WebhookName  // the webhooks with these names that are not deleted, locked
	Workers   []rowkey.Worker     // locked
	Turns     []rowkey.Worker     // the turns of these remote workers, locked
	Watched   []rowkey.Worker     // workers that will not be changed: they stay unchanged until the end of the transaction; many transactions may watch one
	Jobs      []rowkey.Job        // locked until the end of the transaction
	Steps     []pawl.StepKey      // locked, even without their job
	Signals   []rowkey.Job        // of these jobs, the signals that no step has taken, by seq, at most MaxSignals
	Untaken   []rowkey.Job        // of these jobs, the number and size of such signals
	Waiting   []JobLimit          // of these jobs, the steps marked Waiting, locked, by (priority desc, ord)
	Open      []rowkey.Job        // of these jobs, every step that has not ended, locked
	Nodes     []rowkey.Job        // of these jobs, every step of instance 0, locked
	Held      []rowkey.Worker     // the steps in progress that these workers hold, locked
	Claims    []ClaimQuery        // one ClaimFacts each, in this order

	Reservations []pawl.ID // locked; without those that have expired

	// Early, if there is one, may be called before decide, with facts that lack what is claimed, and
	// all workers; their clock is about that of the database. It returns changes of jobs and steps to be
	// written while claims are read, or nil. Then decide is called with the same facts, completed,
	// and returns these changes, which it leaves as they are, among the others. If decide is called
	// with other facts, because these were outdated or the transaction failed, nothing of the early changes
	// counts; Early may be called with them before.
	Early func(*Facts) *Changes
}

// MaxMarked bounds the marked steps of one job that are read at once (Views.Marked).
const MaxMarked = 500

// MaxSignals and MaxSignalBytes bound the signals of one job that no step has taken, and their
// data: a transaction reads all of them.
const (
	MaxSignals     = 100
	MaxSignalBytes = 4 << 20
)

// PageBytes bounds the bodies of a page: it ends with the record that reaches this size. A
// page shorter than its limit is therefore not always the last one; an empty page is.
const PageBytes = 1 << 20

// A Page counts the rows and the bytes of a page that a store reads. It is full with the row
// that reaches one of the limits. A Limit of 0 means none.
type Page struct{ Limit, rows, bytes int }

// Add counts a row with texts and bodies of so many bytes.
func (p *Page) Add(bytes int) {
	p.rows++
	p.bytes += bytes
}

// Full reports whether the page takes no further row.
func (p *Page) Full() bool { return p.Limit > 0 && (p.rows >= p.Limit || p.bytes >= PageBytes) }

// A Pool is a number of slots that jobs or steps take while they run. Taken slots are counted,
// not stored, so no slot can leak. See Facts.Pools.
type Pool struct {
	Kind PoolKind
	Key  rowkey.Pool
}

// A PoolKind says what takes slots of a pool.
type PoolKind int

// The kinds of pools.
const (
	PoolJobs  PoolKind = 1 // one slot for each RUNNING job with that Pool
	PoolQuota PoolKind = 2 // WorkerCount slots for each RUNNING job with that Quota, and those of reservations
	PoolSteps PoolKind = 3 // one slot for each step in progress with that Pool
)

// JobLimit asks for at most Limit things of a job.
type JobLimit struct {
	Job   rowkey.Job
	Limit int
}

// A ClaimQuery asks for work that a worker may take: at most Limit steps that are enqueued on
// one of its routes, by (rank, job, ord). If there are fewer, pending jobs (not paused) on
// those routes make up the number, by (rank, id); Starts of them are returned in any case. A
// job comes with its inputs, its metadata, and its steps without unmet needs. Rows that
// another transaction has locked are skipped. Two claim queries of one transaction never get
// the same row.
//
// The jobs of the steps in Facts.Claims and Facts.Held are in Facts.Jobs too, those of Claims
// with inputs and metadata. Unless Query.Jobs names them, they are read without a lock and
// must not be changed.
type ClaimQuery struct {
	Worker rowkey.Worker
	Routes []rowkey.Route
	Limit  int
	Starts int // at most Limit
}

// Facts are what a transaction saw. The caller may change the records; the store writes only
// what is in Changes.
type Facts struct {
	Now       int64                               // the database's clock
	Keys      map[IdempotencyKey]*Answer          // every requested key; see Answer
	Pools     map[Pool]int                        // taken slots of every requested pool
	Versions  map[pawl.WorkflowName]*pawl.Version // of the registered names
	Limits    map[pawl.WorkflowName]*pawl.Quota
	Schedules map[rowkey.Schedule]*pawl.Schedule
	Tokens    map[rowkey.Token]*pawl.Token
	Pauses    map[rowkey.QueuePause]*pawl.QueuePause
	Webhooks  map[rowkey.Webhook]*pawl.Webhook
	Signals   map[rowkey.Job][]*pawl.Signal // with data
	Untaken   map[rowkey.Job]Untaken
	Workers   map[rowkey.Worker]*pawl.Worker
	Turns     map[rowkey.Worker]Turn // a worker whose turn was never set has none
	Jobs      map[rowkey.Job]*pawl.Job
	Steps     map[pawl.StepKey]*pawl.Step
	Waiting   map[rowkey.Job][]pawl.StepKey // keys into Steps, in order
	Open      map[rowkey.Job][]pawl.StepKey
	Nodes     map[rowkey.Job][]pawl.StepKey
	Held      map[rowkey.Worker][]pawl.StepKey
	Claims    []ClaimFacts // one for each ClaimQuery

	Reservations map[pawl.ID]*pawl.Reservation

	Unreadable int // rows that cannot be decoded: they are omitted, but count towards a limit
}

// Untaken is the number of signals of a job that no step has taken, at most MaxSignals, and
// the size of their data.
type Untaken struct{ Count, Bytes int }

// ClaimFacts is the result of a ClaimQuery: keys into Steps and Jobs. If it holds fewer than
// requested, and neither More nor Skipped is set, the routes held nothing else when they were
// read. If the store finds later that it has overlooked something, Listen reports TopicWork.
type ClaimFacts struct {
	Steps   []pawl.StepKey
	Starts  []rowkey.Job
	More    bool // the limit ended it: there may be more behind it
	Skipped bool // it skipped rows that other transactions had locked or were changing; another claim finds them soon
}

// Changes are what a transaction writes.
type Changes struct {
	Definitions []*pawl.Definition // stored unless they exist
	NewWorkers  []*pawl.Worker
	NewJobs     []*pawl.Job  // with inputs and metadata
	NewSteps    []*pawl.Step // with input and output
	Workers     []Update[*pawl.Worker]
	Jobs        []Update[*pawl.Job]
	Steps       []Update[*pawl.Step]
	Entries     []Entry
	Refusals    []pawl.Refusal

	NewSchedules []*pawl.Schedule
	Schedules    []Update[*pawl.Schedule]
	NewTokens    []*pawl.Token
	NewWebhooks  []*pawl.Webhook
	Tokens       []Update[*pawl.Token]
	NewPauses    []*pawl.QueuePause
	Pauses       []Update[*pawl.QueuePause]
	Webhooks     []Update[*pawl.Webhook]
	Versions     []*pawl.Version // one that exists is ErrStale
	Quotas       []*pawl.Quota   // set; a negative number of slots removes the limit
	NewSignals   []*pawl.Signal
	Taken        []*pawl.Signal // signals whose Taken is stored

	NewReservations []*pawl.Reservation
	Released        []*pawl.Reservation // reservations to be removed

	Turns   map[rowkey.Worker]Turn     // set
	Answers map[IdempotencyKey]*Answer // for keys that the query found new
}

// Empty reports whether there is nothing to write.
func (c *Changes) Empty() bool {
	return len(c.Definitions)+len(c.NewWorkers)+len(c.NewJobs)+len(c.NewSteps)+len(c.Workers)+len(c.Jobs)+len(c.Steps)+len(c.Entries)+
		len(c.Refusals)+len(c.NewSchedules)+len(c.Schedules)+len(c.NewTokens)+len(c.Tokens)+len(c.NewPauses)+len(c.Pauses)+len(c.NewWebhooks)+len(c.Webhooks)+len(c.Versions)+len(c.Quotas)+len(c.NewSignals)+len(c.Taken)+
		len(c.NewReservations)+len(c.Released)+len(c.Turns)+len(c.Answers) == 0
}

// A Turn says how far the conversation with a remote worker has come. It is no part of the
// worker's record: no trail has it.
type Turn struct {
	Number int64 // of the last exchange; it only rises
	Tries  int64 // how often that exchange was repeated
}

// An Update writes a record that was at version Was. Bodies (output, error, input, metadata)
// that are nil stay unchanged.
type Update[R any] struct {
	Record R
	Was    int64
}

// An Entry is an audit entry with the key of its entity. Its From is the To of the entry
// before; its Entity need not be stored, since it follows from the id in the key.
type Entry struct {
	EntityKey
	audit.Entry
}

// An IdempotencyKey is a request id within a workspace (J8).
type IdempotencyKey struct {
	Workspace string
	Key       string
}

// An Answer is the stored answer to a request. In Facts, New marks a key that is unused (or
// whose entry has expired): decide must then put an answer into Changes, or the key is not
// stored. Held marks a key that a user's open transaction has used: nothing else is known
// about it.
type Answer struct {
	New         bool
	Held        bool
	Endpoint    string
	RequestHash [32]byte
	Status      int
	Body        []byte
	ExpiresAt   int64
}

// A LookQuery says where a scan begins and how far it goes. Each scan of a round begins after
// the last row that the previous one found, so that rows that stay do not hide those behind
// them.
type LookQuery struct {
	Limit   int    // limit for each kind; a row is a few integers
	Marked  Marked // only marks behind this one; the zero value begins with the oldest
	Due     Due    // only deadlines behind this one, likewise
	Pending Ranked // only pending jobs behind this one, likewise
	Living  bool   // report on the workers, too

	// Only marks, and deadlines, up to this time; 0: up to now. This bounds a round even if
	// more becomes due all the time.
	MarkedUntil, DueUntil int64
}

// An Agenda is the work of the evaluator.
type Agenda struct {
	Now     int64
	Marked  []Marked       // due marks (Attention) of jobs and their steps, by (At, Job); marks of one job and time are merged
	Due     []Due          // passed deadlines of jobs, steps, workers, schedules and tokens, in the order of Due.Compare
	NextDue int64          // the earliest deadline or mark that is not yet due, or 0
	Pending []Ranked       // pending jobs, not paused, that no worker starts by itself (route 0), by (Rank, Job)
	Living  *health.Report // the report of Observe, and at most Limit workers that have Ended; nil unless requested
}

// A Marked is a job that is marked Attention, or has steps that are.
type Marked struct {
	At  int64 // when the mark is due
	Job rowkey.Job
}

// Compare orders marks: the oldest first.
func (m Marked) Compare(o Marked) int {
	return cmp.Or(cmp.Compare(m.At, o.At), cmp.Compare(m.Job, o.Job))
}

// A Ranked is a pending job and its place in the queue.
type Ranked struct {
	Rank int64
	Job  rowkey.Job
}

// A Due is a record whose deadline has passed.
type Due struct {
	EntityKey
	At    int64
	Event machine.Event
}

// DueKinds are the kinds of records that have deadlines, in the order of Due.Compare.
var DueKinds = [...]string{lifecycle.Job.Name, lifecycle.Step.Name, lifecycle.Worker.Name, lifecycle.Schedule.Name, lifecycle.Token.Name}

// Compare orders deadlines: by time, kind and key.
func (d Due) Compare(o Due) int {
	return cmp.Or(cmp.Compare(d.At, o.At), cmp.Compare(d.kind(), o.kind()), d.StepKey.Compare(o.StepKey))
}

func (d Due) kind() int { return slices.Index(DueKinds[:], d.Kind) }

// Behind returns the key after which a scan of a kind's deadlines, at the time of d, finds
// those that come after d.
func (d Due) Behind(kind string) pawl.StepKey {
	switch is := slices.Index(DueKinds[:], kind); {
	case is < d.kind():
		return pawl.StepKey{Job: math.MaxInt64, Ord: math.MaxInt64} // all deadlines of that kind at that time come before
	case is > d.kind():
		return pawl.StepKey{Job: math.MinInt64} // none do
	}
	return d.StepKey
}

// NodeMemory is how long a silent process is remembered.
const NodeMemory = 10 * time.Minute

// A HeldError is returned by Hold when the name is taken.
type HeldError struct {
	Name string
	Note []byte // the holder's description of itself; may be empty
}

func (e *HeldError) Error() string { return e.Name + " is held by " + string(e.Note) }

// Logs keep the output of steps, outside the ledger.
type Logs interface {
	// AppendLogs stores chunks. A chunk whose claim is not the step's last one is stored too:
	// it belongs to that attempt.
	AppendLogs(ctx context.Context, chunks []pawl.Chunk) error
	// Logs reads a page of the chunks of a job, or of one step if ord is not 0, in the order
	// of (ord, claim, at, offset, stream), beyond a place: at most limit; see PageBytes.
	Logs(ctx context.Context, job rowkey.Job, ord pawl.Ord, after LogPlace, limit int) ([]pawl.Chunk, error)
}

// A LogPlace is the place of a chunk in the order in which logs are read. The zero value is
// before the first.
type LogPlace struct {
	Ord        pawl.Ord
	Claim      int
	At, Offset int64
	Stream     string
}

// PlaceOf returns the place of a chunk.
func PlaceOf(c *pawl.Chunk) LogPlace { return LogPlace{c.Ord, c.Claim, c.At, c.Offset, c.Stream} }

// Wakeups carry hints between the processes on one database. Nothing but speed depends on what a
// hint carries; it may be lost, and may arrive twice.
type Wakeups interface {
	// Wake sends the topics to the other processes (and not to this one). It returns at once;
	// hints that are close in time are sent together. With TopicWork, steps is how many more can
	// be claimed. Without topics, it only prepares to send: the next hint need not wait for a
	// connection.
	Wake(steps int, topics ...Topic)
	// Listen calls f with each hint that another process sent, until ctx ends, one call at a
	// time. A store that finds work which claims of this process have overlooked calls it with
	// TopicWork.
	Listen(ctx context.Context, f func(Hint)) error
	// Hears reports whether hints of other processes currently reach a Listen, as far as is
	// known. If not, the database has to be polled more often.
	Hears() bool
	// Ask has the next hint of work say that lent slots could have taken so many of the steps.
	Ask(slots int)
	// Send soon sends a message to the process with this handle, behind those sent before; hints
	// that are pending may come after it. One with more than fits comes in several. Who gets it
	// need not read what was taken: what this store knows of it goes along.
	Send(to string, m *Message)
}

// A Hint is what a process hears of another one.
type Hint struct {
	Topic Topic
	Steps int    // with TopicWork: how many more can be claimed; 0 if that is not known
	First uint32 // a random number, with Steps: it says which of the workers that could take them look first

	From string // the handle of a sender that takes messages, and asks for slots:
	Asks int    // of the steps, those that lent slots could have taken

	Message *Message // with TopicMessages; nil: messages may have been lost
}

// A Topic is the subject of a hint.
type Topic string

// The topics.
const (
	TopicWork  Topic = "work"  // there may be something to claim
	TopicMarks Topic = "marks" // there may be something to evaluate
	TopicStops Topic = "stops" // a running step may have been asked to stop

	TopicLimits Topic = "limits" // a limit was set, or a queue paused or resumed

	TopicWebhooks Topic = "webhooks" // a webhook was made, or has moved

	TopicMessages Topic = "messages" // for this process alone: a message

	// TopicSchema: the schema was migrated. Only on PostgreSQL, where reading the version is
	// expensive.
	TopicSchema Topic = "schema"
)

// Topics are all topics.
var Topics = []Topic{TopicWork, TopicMarks, TopicStops, TopicLimits, TopicWebhooks, TopicMessages, TopicSchema}

// A Migrator moves the schema up and down.
type Migrator interface {
	// Version returns the schema's version (0 if empty) and the newest known.
	Version(ctx context.Context) (current, newest int, err error)
	// Fits returns nil if this program works on the present schema: one of its own version, or
	// of an adjacent version if the change between them is rolling. Otherwise the error is of
	// kind Conflict and says which of the two is too old.
	Fits(ctx context.Context) error
	// Migrate moves to the version, up or down.
	Migrate(ctx context.Context, to int) error
	// Plan returns the SQL that Migrate would run, in order.
	Plan(ctx context.Context, to int) ([]string, error)
}
