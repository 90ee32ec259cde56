package spec

import (
	"regexp"
	"time"

	"github.com/pawl-dev/pawl/internal/document"
)

// Limits of a file.
const (
	MaxName        = 128     // bytes of a name
	MaxDescription = 4096    // bytes
	MaxPath        = 4096    // bytes
	MaxSets        = 100     // file sets
	MaxMix         = 100     // operations of the mix
	MaxThresholds  = 1000    // entries
	MaxSizes       = 1000    // of a list
	MaxWeight      = 1 << 20 // of an operation, or of a size
	MaxFiles       = 1 << 30 // of one set
	MaxFolders     = 1 << 24 // of one set
	MaxWidth       = 10_000
	MaxDepth       = 16      // levels of folders
	MaxSize        = 1 << 44 // bytes of a file
	MaxBlock       = 1 << 30 // bytes of a block
	MaxTotal       = 1 << 60 // bytes of one set
	MaxJobs        = 1024
	MaxInFlight    = 4096 // of one thread
	maxPartsAtOnce = 64
	MaxRate        = 1e9 // operations in a second
	MaxCount       = 1 << 50
	MaxDuration    = 31 * 24 * time.Hour
	MaxDelay       = 4 * time.Minute // agents refuse a start more than five minutes ahead
	MaxQuorum      = 10_000
	MaxIntervals   = 100_000 // of a run
	MaxResult      = 1 << 30 // bytes of the result of an agent
	MaxTheta       = 1.99    // of zipf
)

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	endpointPattern = regexp.MustCompile(`^https?://[^/@?#\x00-\x20\x7f]+/?$`)
	bucketPattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*[a-z0-9]$`)
	pathPattern     = regexp.MustCompile(`^[^\x00-\x1f\x7f]*$`)
)

func words[T ~string](all ...T) *document.Shape {
	s := &document.Shape{Kind: document.ShapeText}
	for _, w := range all {
		s.Words = append(s.Words, string(w))
	}
	return s
}

func span(least, most time.Duration) *document.Shape {
	return &document.Shape{Kind: document.ShapeDuration, Least: least, Most: most}
}

func whole(least, most int) *document.Shape {
	return &document.Shape{Kind: document.ShapeInteger, Min: least, Max: most}
}

var (
	nameShape     = &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxName, Pattern: namePattern, PatternDoc: "a name: letters, 0-9, . _ and -, no sign first"}
	boolShape     = &document.Shape{Kind: document.ShapeBoolean}
	timeoutShape  = span(100*time.Millisecond, 24*time.Hour)
	fileSizeShape = bytesShape(0, MaxSize)
	deletesShape  = words(DeleteCreated, DeleteNothing)
	kindShape     = words(Kinds...)
)

// sizeKeys are the distributions of a size.
var sizeKeys = []string{"uniform", "lognormal", "list"}

var sizeShape = &document.Shape{Kind: document.ShapeObject, Hint: "write a size, or {uniform: {min: SIZE, max: SIZE}}", OneOf: sizeKeys, Also: exactlyOne(sizeKeys), Fields: []document.Field{
	{Name: "uniform", Shape: uniformShape, Doc: "Equally likely from `min` to `max`."},
	{Name: "lognormal", Shape: lognormalShape, Doc: "A lognormal distribution."},
	{Name: "list", Shape: &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxSizes, Elem: weightedShape}, Doc: "Some sizes, each as likely as its share of all weights."},
}}

var uniformShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {min: SIZE, max: SIZE}", Also: ordered, Fields: []document.Field{
	{Name: "min", Required: true, Shape: fileSizeShape, Doc: "The least."},
	{Name: "max", Required: true, Shape: fileSizeShape, Doc: "The greatest."},
}}

var lognormalShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {mean: SIZE, deviation: SIZE, min: SIZE, max: SIZE}", Also: ordered, Fields: []document.Field{
	{Name: "mean", Required: true, Shape: bytesShape(1, MaxSize), Doc: "The mean, before the distribution is cut off."},
	{Name: "deviation", Required: true, Shape: fileSizeShape, Elsewhere: []string{"std_dev", "stddev", "sigma"}, Doc: "The standard deviation, likewise."},
	{Name: "min", Required: true, Shape: fileSizeShape, Doc: "Smaller ones are drawn again."},
	{Name: "max", Required: true, Shape: fileSizeShape, Doc: "Larger ones are drawn again."},
}}

var weightedShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {size: SIZE, weight: NUMBER}", Fields: []document.Field{
	{Name: "size", Required: true, Shape: fileSizeShape, Doc: "The size."},
	{Name: "weight", Default: 1, Shape: whole(1, MaxWeight), Doc: "Its weight."},
}}

// sizeOr is one size, or a distribution.
func sizeOr(least, most int64) *document.Shape {
	return either(bytesShape(least, most), "fixed", sizeShape, "size, or one of `uniform`, `lognormal`, `list`")
}

// fileShape is the whole file.
var fileShape = &document.Shape{Kind: document.ShapeObject, Also: across, Fields: []document.Field{
	{Name: "name", Required: true, Shape: nameShape,
		Doc: "The name of the workload, for reports."},
	{Name: "description", Shape: &document.Shape{Kind: document.ShapeText, Max: MaxDescription},
		Doc: "What it is for."},
	{Name: "target", Default: "load", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxPath, Pattern: pathPattern, PatternDoc: "the path of a folder, on one line"}, Elsewhere: []string{"directory", "dir", "path"},
		Doc: "The folder to work in, beneath the first root of each agent; or an absolute path beneath any of its roots. A run works in a folder of its own in it. With the engine `s3` the same of keys: beneath the prefix of the bucket that the agent has; or from the beginning of the bucket, with a / first."},
	{Name: "shared", Default: false, Shape: boolShape,
		Doc: "Whether all agents use one set of files, each creating its part. If not, each has files of its own. With a `count`, or a policy other than all, it needs `cleanup: nothing`, since agents that end first would delete what others use."},
	{Name: "seed", Default: 1, Shape: whole(0, 1<<62), Elsewhere: []string{"randseed"},
		Doc: "What sizes, content and the order of operations are derived from."},
	{Name: "files", Default: []any{}, Shape: &document.Shape{Kind: document.ShapeList, Max: MaxSets, Elem: setShape}, Elsewhere: []string{"filesets", "prepare"},
		Doc: "The sets of files, in the order in which they are prepared."},
	{Name: "mix", Required: true, Shape: &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxMix, Elem: mixShape}, Elsewhere: []string{"operations", "workload"},
		Doc: "The operations."},
	{Name: "engine", Default: string(Threads), Shape: engineShape, Elsewhere: []string{"ioengine"},
		Doc: "How operations are issued: `threads`, one system call at a time in each thread; `uring`, `depth` at a time in each thread, by io_uring; `s3`, `depth` requests at a time in each thread, to an object store; `null`, in quotes, not at all, which shows what the engine itself costs."},
	{Name: "s3", Fill: true, Shape: storeShape,
		Doc: "The object store of the engine `s3`."},
	{Name: "direct", Default: false, Shape: boolShape,
		Doc: "Whether I/O bypasses the page cache (O_DIRECT). Blocks are then multiples of 512 bytes, and of what the file system asks for."},
	{Name: "sync", Default: string(SyncNone), Shape: words(SyncNone, SyncEach, SyncData, SyncOpen, SyncAtEnd), Elsewhere: []string{"fsync"},
		Doc: "When writes are made durable: `fsync` and `fdatasync`, after each write, append and create, and in its latency; `dsync`, by O_DSYNC; `end`, once for each file as the run ends, outside of all latencies."},
	{Name: "verify", Default: false, Shape: boolShape,
		Doc: "Whether data that is read is compared with what was written there."},
	{Name: "jobs", Default: 1, Shape: whole(1, MaxJobs), Elsewhere: []string{"numjobs", "threads", "concurrency"},
		Doc: "The threads of each agent."},
	{Name: "depth", Default: 1, Shape: whole(1, MaxInFlight), Elsewhere: []string{"iodepth"},
		Doc: "The operations in flight of each thread; more than one needs the engine `uring` or `s3`."},
	{Name: "rate", Shape: rateShape, Elsewhere: []string{"rate_iops"},
		Doc: "The operations that each agent begins in a second. Latencies are then also measured from the time at which an operation was due. Default: as many as possible."},
	{Name: "warmup", Default: "0s", Shape: span(0, MaxDuration), Elsewhere: []string{"ramp_time"},
		Doc: "How long the workload runs before anything counts."},
	{Name: "duration", Shape: span(time.Millisecond, MaxDuration), Elsewhere: []string{"runtime"},
		Doc: "How long it runs after that. Default 30s, unless there is a `count`."},
	{Name: "count", Shape: whole(1, MaxCount),
		Doc: "In place of `duration`: the operations of each agent, after which it ends."},
	{Name: "errors", Fill: true, Shape: budgetShape,
		Doc: "How many failed operations a run survives. A full or read-only file system and a missing permission end it in any case."},
	{Name: "cleanup", Default: string(DeleteCreated), Shape: either(deletesShape, "all", cleanupShape, "`created`, `nothing`, or by outcome"),
		Doc: "What is deleted after the run: `created`, all that it has created, or `nothing`."},
	{Name: "interval", Default: "1s", Shape: span(100*time.Millisecond, time.Minute),
		Doc: "The interval of the statistics."},
	{Name: "timeouts", Fill: true, Shape: timeoutsShape,
		Doc: "The time limits of the protocol between controller and agents."},
	{Name: "start", Fill: true, Shape: startShape,
		Doc: "When a run starts, and with how many agents."},
	{Name: "thresholds", Default: []any{}, Shape: &document.Shape{Kind: document.ShapeList, Max: MaxThresholds, Elem: anyOf(thresholdShape, metricKeys())},
		Doc: "What the result must not exceed or fall below. Otherwise the run has failed."},
}}

var engineShape = &document.Shape{Kind: document.ShapeText, Words: []string{string(Threads), string(Uring), string(S3), string(Null)}, Hint: `write "null", with quotes, for the engine that issues nothing`}

var storeShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {endpoint: URL, bucket: NAME}", Fields: []document.Field{
	{Name: "endpoint", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxPath, Pattern: endpointPattern, PatternDoc: "https://HOST or http://HOST, with a port or without"}, Elsewhere: []string{"url", "host"},
		Doc: "Where it is, as https://HOST or https://HOST:PORT. The agent must allow it. Default that of the first bucket that the agent has."},
	{Name: "bucket", Shape: &document.Shape{Kind: document.ShapeText, Min: 3, Max: 63, Pattern: bucketPattern, PatternDoc: "the name of a bucket: a-z, 0-9, . _ and -, no sign first or last"},
		Doc: "The bucket, which is there. The agent must allow it. Default the first one that the agent has; with an absolute target, that has the target."},
	{Name: "region", Default: "us-east-1", Shape: nameShape,
		Doc: "The region that requests are signed for."},
	{Name: "part_size", Default: "16MiB", Shape: bytesShape(5<<20, 5<<30), Elsewhere: []string{"multipart_size", "partsize"},
		Doc: "Larger objects are uploaded in parts of this size. Objects of more than 10,000 parts have larger ones."},
	{Name: "parts_at_once", Default: 1, Shape: whole(1, maxPartsAtOnce),
		Doc: "How many parts of one object are sent at the same time, each over a connection of its own."},
	{Name: "retries", Default: 0, Shape: whole(0, 10), Elsewhere: []string{"max_retries"},
		Doc: "How often a request that has failed is tried again, in the time of its operation, if the store was busy, returned a server error or was out of reach. An error that a retry hides is counted as a retry. Plans and preparations have none."},
	{Name: "page", Default: 1000, Shape: whole(1, 1000), Elsewhere: []string{"max_keys"},
		Doc: "The most objects that are asked for at once by a `list`, which gets all pages."},
	{Name: "timeout", Default: "30s", Shape: span(100*time.Millisecond, time.Hour),
		Doc: "How long an operation waits until something is sent or received, before it has failed. In plans and cleanups at most 5s, in preparations three quarters of `timeouts.prepare`."},
	{Name: "sign_payload", Default: false, Shape: boolShape,
		Doc: "Whether the signature of a request covers its content, with SHA-256. The hash is made before the operation begins."},
}}

var setShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {name: NAME, count: NUMBER, size: SIZE}", Fields: []document.Field{
	{Name: "name", Required: true, Keep: true, Shape: nameShape,
		Doc: "Its name, which is also the name of its folder."},
	{Name: "count", Default: 0, Shape: whole(0, MaxFiles), Elsewhere: []string{"nrfiles", "files"},
		Doc: "How many files are prepared by each agent; if shared, by all together. 0: none, it is the folder in which operations create files."},
	{Name: "size", Shape: sizeOr(0, MaxSize), Elsewhere: []string{"filesize"},
		Doc: "The size of each. Needed if there is a count."},
	{Name: "tree", Shape: treeShape,
		Doc: "The folders of the set. Default one folder."},
	{Name: "compressible", Default: 0, Shape: whole(0, 100),
		Doc: "How much of the content compresses away, in percent. Content never deduplicates."},
	{Name: "allocate", Default: string(WriteBlocks), Shape: words(WriteBlocks, ReserveBlocks, NoBlocks), Elsewhere: []string{"fallocate"},
		Doc: "How files are prepared: `write`, with content; `fallocate`, with blocks but no content; `sparse`, by their length alone."},
}}

var treeShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {width: NUMBER, depth: NUMBER}", Fields: []document.Field{
	{Name: "width", Required: true, Shape: whole(1, MaxWidth), Doc: "The folders in each folder of a level."},
	{Name: "depth", Default: 1, Shape: whole(1, MaxDepth), Doc: "The levels. The files are in the folders of the last one, in turn."},
}}

var mixShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {operation: OPERATION, files: NAME}", Fields: []document.Field{
	{Name: "operation", Required: true, Shape: kindShape, Elsewhere: []string{"op", "kind"},
		Doc: "`read` and `write`, a block of a file; `append`, a block to its end; `create`, a new file with its content; `delete`, `stat`, `rename` and `fsync`, a file; `list`, a folder; `mkdir`."},
	{Name: "files", Shape: nameShape, Elsewhere: []string{"fileset"},
		Doc: "The set of files. Default the only one."},
	{Name: "weight", Default: 1, Shape: whole(1, MaxWeight), Elsewhere: []string{"percent"},
		Doc: "It is as likely as its share of all weights."},
	{Name: "block", Shape: sizeOr(0, MaxBlock), Elsewhere: []string{"size", "bs", "blocksize"},
		Doc: "Of read, write and append: how much at a time, by default 4KiB; of a read with the engine `s3`, by default the whole object. Of create: the size of the file, by default the `size` of the set, or 4KiB."},
	{Name: "access", Default: string(Random), Shape: either(words(Random, Sequential, Zipf), "pattern", zipfShape, "`random`, `sequential`, `zipf` or {zipf: NUMBER}"),
		Doc: "Which file or block is next: `random`; `sequential`, each thread through its own part, and again; `zipf`, few of them often."},
}}

var zipfShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {zipf: NUMBER}", Fields: []document.Field{
	{Name: "zipf", Required: true, Shape: numberShape(0, MaxTheta, false),
		Doc: "The exponent: 0 is as good as uniform; without it, 0.99."},
}}

var rateShape = either(numberShape(0, MaxRate, true), "operations", &document.Shape{Kind: document.ShapeObject, Hint: "write a number, or {operations: NUMBER, arrival: ARRIVAL}", Fields: rateFields}, "number, or with `arrival`")

var rateFields = []document.Field{
	{Name: "operations", Required: true, Shape: numberShape(0, MaxRate, true), Doc: "In a second, of each agent."},
	{Name: "arrival", Default: string(Constant), Shape: words(Constant, Poisson), Doc: "How they are spread: `constant`, at equal distances; `poisson`, at random."},
}

var budgetShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {count: NUMBER}", Fields: []document.Field{
	{Name: "count", Default: 0, Shape: whole(0, MaxCount), Doc: "Of each agent. With 0 the first one ends the run, unless there is a `percent`."},
	{Name: "percent", Default: 0, Shape: numberShape(0, 100, false), Doc: "Of the operations of an agent, once there are 100. 0: only `count` counts."},
}}

var cleanupShape = &document.Shape{Kind: document.ShapeObject, Hint: "write created, nothing, or {completed: created, error: created, aborted: created}", Fields: []document.Field{
	{Name: "completed", Default: string(DeleteCreated), Shape: deletesShape, Doc: "After a run that has completed."},
	{Name: "error", Default: string(DeleteCreated), Shape: deletesShape, Doc: "After one that has failed."},
	{Name: "aborted", Default: string(DeleteCreated), Shape: deletesShape, Doc: "After one that was aborted."},
}}

var timeoutsShape = &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
	{Name: "config", Default: "30s", Shape: timeoutShape, Doc: "For the config, from the opening of the stream."},
	{Name: "prepare", Default: "30s", Shape: timeoutShape, Doc: "Without progress while files are prepared."},
	{Name: "start", Default: "1m0s", Shape: timeoutShape, Doc: "For the start time, once an agent is ready. Several agents under the policy all wait instead for as long as the others make progress in preparing."},
	{Name: "silence", Default: "10s", Shape: timeoutShape, Doc: "Of an agent, until the controller pings it."},
	{Name: "acknowledge", Default: "5s", Shape: timeoutShape, Doc: "For the reply to a ping, and for the acknowledgement of a result."},
	{Name: "lease", Default: "30s", Shape: timeoutShape, Doc: "Of a controller's silence, until the agent ends the run."},
	{Name: "abort", Default: "1s", Shape: timeoutShape, Doc: "For the engine to end, until it is killed."},
}}

var startShape = &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
	{Name: "delay", Default: "1s", Shape: span(10*time.Millisecond, MaxDelay), Doc: "From the moment at which the agents are ready to the start."},
	{Name: "policy", Default: string(All), Shape: words(All, Quorum, BestEffort), Doc: "How many agents have to be ready, and to complete: `all`; `quorum`, as many as that key says; `best-effort`, one."},
	{Name: "quorum", Shape: whole(1, MaxQuorum), Doc: "The agents that the policy `quorum` needs."},
}}

var thresholdShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {operation: OPERATION, p99: TIME}", Fields: []document.Field{
	{Name: "operation", Shape: kindShape, Doc: "The operation. Default all together."},
	{Name: string(P50), Shape: latencyShape, Doc: "The most that the median may be: of the response time if there is a `rate`, of the service time otherwise."},
	{Name: string(P90), Shape: latencyShape, Doc: "The same of the 90th percentile."},
	{Name: string(P99), Shape: latencyShape, Doc: "The same of the 99th percentile."},
	{Name: string(P999), Shape: latencyShape, Doc: "The same of the 99.9th percentile."},
	{Name: string(Maximum), Shape: latencyShape, Doc: "The same of the greatest."},
	{Name: string(Failures), Shape: whole(0, MaxCount), Doc: "The most operations that may fail."},
	{Name: string(Throughput), Shape: bytesShape(1, MaxTotal), Doc: "The least bytes in a second, of all agents."},
	{Name: string(Operations), Shape: numberShape(0, MaxRate, true), Doc: "The least operations in a second, of all agents."},
}}

var latencyShape = span(time.Nanosecond, 24*time.Hour)

// Metrics are all metrics, in the order of reports.
var Metrics = []Metric{P50, P90, P99, P999, Maximum, Failures, Throughput, Operations}

func metricKeys() (keys []string) {
	for _, m := range Metrics {
		keys = append(keys, string(m))
	}
	return keys
}
