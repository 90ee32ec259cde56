package spec

import "time"

// A Test is the contents of a file: one workload, which each agent of a run executes.
type Test struct {
	Name        string
	Description string

	// Target is the folder to work in. A relative one is beneath the first root of the agent.
	// Each run has a folder of its own in it, named for the run, and each agent one in that
	// unless they share.
	Target string
	Shared bool // all agents use one set of files, of which each creates its part
	Seed   uint64

	Files []FileSet   // in the order in which they are prepared
	Mix   []Operation // at least one

	Engine    Engine
	S3        *ObjectStore // of the engine s3; nil for others
	Direct    bool
	Sync      Sync
	Verify    bool // what is read is compared with what was written there
	Jobs      int  // threads of each agent
	Depth     int  // operations in flight of each thread; the engines uring and s3 only
	Rate      *Rate
	Warmup    time.Duration
	Duration  time.Duration // of each agent, after the warm-up; 0 if Operations ends it
	Count     uint64        // operations of each agent after the warm-up; 0 if Duration ends it
	Errors    ErrorBudget
	Cleanup   Cleanup
	Interval  time.Duration // of the statistics
	Timeouts  Timeouts
	Start     Start
	Threshold []Threshold
}

// A FileSet is a set of files that are there before the run begins, or the folder in which
// operations create files if its Count is 0.
type FileSet struct {
	Name    string
	Count   uint64
	Size    Size
	Tree    Tree
	Content Content
	Blocks  Allocation
}

// A Size is a distribution of sizes in bytes. Exactly one of its forms is used.
type Size struct {
	Fixed     int64
	Uniform   *Uniform
	Lognormal *Lognormal
	List      []Weighted
}

// Uniform sizes are equally likely from Min to Max.
type Uniform struct{ Min, Max int64 }

// Lognormal sizes have the given mean and standard deviation, and are cut off at Min and Max.
type Lognormal struct{ Mean, Deviation, Min, Max int64 }

// Weighted is one size of a list, as likely as its share of all weights.
type Weighted struct {
	Size   int64
	Weight int
}

// A Tree is the folders of a file set: Depth levels, with Width folders in each. The files are
// in those of the last level, in turn. The zero value is one folder.
type Tree struct{ Width, Depth int }

// Content says what is in files: how much of it, in percent, compresses away. It never
// deduplicates.
type Content struct{ Compressible int }

// An Allocation says how the blocks of a prepared file come about.
type Allocation string

// The allocations.
const (
	WriteBlocks   Allocation = "write"     // with content
	ReserveBlocks Allocation = "fallocate" // without content
	NoBlocks      Allocation = "sparse"    // only the length is set
)

// A Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Read   Kind = "read"   // a block of a file
	Write  Kind = "write"  // a block of a file
	Append Kind = "append" // a block to the end of a file
	Stat   Kind = "stat"
	List   Kind = "list"   // a folder
	Create Kind = "create" // a new file, with all its content
	Delete Kind = "delete" // a file
	Mkdir  Kind = "mkdir"
	Rename Kind = "rename" // within its folder
	Fsync  Kind = "fsync"  // of a file
)

// Kinds are all kinds, in the order of reports.
var Kinds = []Kind{Read, Write, Append, Create, Delete, Stat, List, Mkdir, Rename, Fsync}

// An Operation is one kind of the mix, as likely as its share of all weights.
type Operation struct {
	Kind   Kind
	Files  string // the file set
	Weight int
	Block  Size // of read, write and append: the length of one; of create: the size of the file; see Whole
	Access Access
}

// An Access says which file or block is next.
type Access struct {
	Pattern Pattern
	Theta   float64 // of Zipf: from 0, as good as uniform, to less than 2
}

// A Pattern is an order of access.
type Pattern string

// The patterns.
const (
	Random     Pattern = "random"
	Sequential Pattern = "sequential" // each thread through its own part, and again
	Zipf       Pattern = "zipf"
)

// An Engine is how operations are issued.
type Engine string

// The engines.
const (
	Threads Engine = "threads" // one system call at a time in each thread
	Uring   Engine = "uring"   // Depth operations at a time in each thread, by io_uring
	S3      Engine = "s3"      // Depth requests at a time in each thread, to an object store
	Null    Engine = "null"    // none: what the engine itself costs
)

// An ObjectStore is a bucket and how it is used. An agent has a list of those that a run may use.
type ObjectStore struct {
	Endpoint    string // "": that of the first bucket of the agent
	Bucket      string // "": likewise
	Region      string
	PartSize    int64         // larger objects are uploaded in parts of this size
	PartsAtOnce int           // of one upload
	Retries     int           // of a request
	Page        int           // objects of a page of a list
	Timeout     time.Duration // within which something has to be sent or received
	SignPayload bool
}

// A Sync says when writes are made durable.
type Sync string

// The syncs.
const (
	SyncNone  Sync = "none"
	SyncEach  Sync = "fsync"     // after each write, append and create
	SyncData  Sync = "fdatasync" // likewise
	SyncOpen  Sync = "dsync"     // by O_DSYNC
	SyncAtEnd Sync = "end"       // once for each file, as the run ends; its time is not in the latencies
)

// A Rate is how many operations each agent begins in a second. Latencies are then measured
// from the time at which an operation was due as well.
type Rate struct {
	Operations float64
	Arrival    Arrival
}

// An Arrival says how operations are spread.
type Arrival string

// The arrivals.
const (
	Constant Arrival = "constant"
	Poisson  Arrival = "poisson"
)

// An ErrorBudget is how many failed operations a run survives. No space, a read-only file
// system and a missing permission end it in any case.
type ErrorBudget struct {
	Count   uint64  // of each agent; 0: the first one ends the run
	Percent float64 // of the operations of an agent, once there are 100; 0: only Count counts
}

// A Cleanup says what is deleted when a run has ended, by how it has ended.
type Cleanup struct{ Completed, Error, Aborted Deletes }

// Deletes is what is deleted.
type Deletes string

// What is deleted.
const (
	DeleteCreated Deletes = "created" // what the run has created, by its manifest
	DeleteNothing Deletes = "nothing"
)

// Timeouts are the limits of the protocol (L2).
type Timeouts struct {
	Config      time.Duration // for the config, from the opening of the stream
	Prepare     time.Duration // without progress
	Start       time.Duration // for the start time, from READY
	Silence     time.Duration // of an agent, until the controller pings it
	Acknowledge time.Duration // for a reply to a ping, and for the acknowledgement of a result
	Lease       time.Duration // of a controller's silence, until the agent ends the run
	Abort       time.Duration // for an engine to end, until it is killed
}

// Start says when a run begins and how many agents it takes.
type Start struct {
	Delay  time.Duration // from the moment at which the agents are ready
	Policy Policy
	Quorum int // of Policy Quorum
}

// A Policy says how many agents have to be ready, and to complete, for a run to go on and to succeed.
type Policy string

// The policies.
const (
	All        Policy = "all"
	Quorum     Policy = "quorum"
	BestEffort Policy = "best-effort" // one
)

// A Threshold is what a result must not exceed or fall below; the run has failed otherwise.
type Threshold struct {
	Operation Kind // "" for all together
	Metric    Metric
	Limit     float64 // nanoseconds of a latency, bytes or operations in a second, or a number of errors
}

// A Metric is what a threshold is of.
type Metric string

// The metrics. A latency is the response time where there is a rate and the service time
// otherwise, and exceeds its limit; a throughput falls below it.
const (
	P50        Metric = "p50"
	P90        Metric = "p90"
	P99        Metric = "p99"
	P999       Metric = "p999"
	Maximum    Metric = "max"
	Failures   Metric = "errors"
	Throughput Metric = "throughput" // bytes in a second
	Operations Metric = "operations" // in a second
)
