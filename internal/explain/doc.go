// Package explain reads a database for its users, and changes nothing: the jobs, workers,
// schedules, workflows and limits; their histories, logs, and a job as it was; and why a job
// makes no progress. Nothing is stored for this. Each result is derived on request, from the
// records by which an engine decides.
//
// It is apart from the engine because it has another reason to change: the engine changes with
// what happens to jobs, this package with what people want to know. An engine holds a Reader
// and has its methods, among others those of link.Inspect.
//
// # Types
//
//   - Reader has the methods. It is made of a Source, which is a store without the methods that
//     write, so it cannot change anything; of the caches that it shares with the engine,
//     definitions.Cache and quota.Cache; and of what the engine was configured with: the
//     silence of workers, and whether this process evaluates jobs.
//   - lists.go and steps.go read the pages of lists. views.go makes the views of jobs and
//     their steps, workers.go, schedules.go, workflows.go and quotas.go the others. moves.go
//     bounds the moves that a view has, stepPages the outputs. counts.go counts what is in
//     flight, by state and by queue, rates.go what has begun and ended. approvals.go lists
//     what waits for people. grid.go and timeline.go show states and spans of time of steps,
//     without bodies; tasks.go has what is about single tasks of people.
//   - history (history.go) merges the trail of a job with the facts that were refused.
//   - past (past.go) rebuilds a job at a moment: it starts with the view of today, removes what
//     the trail tells, and applies the entries written by then. A fold does the same for a
//     step.
//   - scene and inquiry (why.go) are Why and Stuck. A scene is read once for all jobs: the
//     workers that live and what they run, the queues, the limits. An inquiry is of one job in
//     a scene. stuck.go keeps the jobs that ought to move, whyjob.go has the reasons of the
//     job itself, whystep.go those of a step. The reason of a child job is an inquiry of its
//     own, in the same scene, and goes no deeper.
//
// # Consistency
//
// A method reads several times and holds no lock in between. Its result is of one moment only
// if nothing moves meanwhile; where a reader must know that, the method says so. Methods that
// call a function with each record read in pages, so the function may be slow.
//
// # Bounds
//
// Lists of jobs and workers have at most maxList records. A page (JobPage, StepPage,
// WorkerPage, Approvals) looks at no more than maxRows records, so that what is rare does not make it walk a table,
// and ends once its bodies reach maxListBytes; it says where the next one begins. A view has
// at most maxMoves moves and, once its bodies reach maxListBytes, steps without outputs, and
// says what it omits. An inquiry reads the instances of a fan-out up to the last one that
// lives, counts them in groups, and names the first few.
//
// # Failures
//
//   - A job, worker, schedule or workflow that does not exist is an error of kind NotFound
//     (store.FindJob). A related record that is gone, such as a parent that retention has
//     removed, is left out.
//   - A definition that cannot be read (store.Unreadable) hides no other job: lists show its
//     job without the hash, Why and Stuck give ReasonUnreadable. Job, Past, History and Logs
//     need the definition for the keys of the steps, and return the error.
//   - A step whose row cannot be read is missing from the views. Why gives ReasonUnreadable for
//     it.
//   - If the database is unavailable, the error is of kind Unavailable, and nothing is returned
//     beside it. A function that is called with each record may have been called already.
//
// # Tests
//
// What is asked about jobs that really run, or that stand still for a reason, is tested in
// internal/engine (why_test.go, past_test.go, unreadable_test.go and others): these tests need
// workers and a whole process. Here are those that need no more than records.
//
// # Where to begin
//
// Read Job in views.go, then Why in why.go from the top.
package explain
