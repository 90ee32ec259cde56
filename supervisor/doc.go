// Package supervisor keeps services converged on what is desired of them (S1 to S15). A
// service is anything that can be observed and acted on: a program, a connection, a
// tenant. The user writes a [Worker], which observes the service, and its states, each a
// pure function from a [Snapshot] to a [Decision]. The supervisor does the rest: it
// collects observations, calls Next, runs and retries actions, and stops everything in
// order.
//
// # Types
//
// A [Supervisor] spreads its services over shards. [Add] adds a service and returns its
// [Handle], which changes its specification and options. A service has one state of its
// worker, the desired state of its specification, the last observation, and the last
// action with its [ActionStatus]; a snapshot shows all of them to Next. A [Journal] makes
// them durable, and [Hooks] report what happens.
//
// # Turns
//
// A service has a turn when something has happened: an observation, the outcome of an
// action, a new desired state, a call of Wake, a shutdown. In its turn Next is called and
// its decision carried out. A collection about every second finds what nothing reported.
// An idle service has no goroutine: it is an entry in the heap of its shard, which is one
// loop with one timer. What takes time (actions, collections, the journal) runs in
// goroutines of its own, so that a service that is stuck in any of them blocks no other.
// Only Next and hooks run in the loop, and at times States, GetInitialState and
// Config.Random: they must not block.
//
// # Actions
//
// A service has one action at a time. An action takes the slot in the turn that accepts
// it, and frees it when its outcome is visible and its goroutine has ended. A second
// action is refused with a [BusyError], and so is the state that it came with; one with
// the same key is ignored. While an action runs, Next is still called: it may wait, change
// state, or cancel the action.
//
// An attempt has a deadline (5 minutes). Then its context is cancelled, with the cause
// [ErrActionTimeout]; 5 seconds later it is abandoned. That is a failure; a late result
// changes nothing, and the slot stays taken until the goroutine ends, unless the action
// allows an overlap.
//
// A retry is another decision, on a fresh snapshot: Next asks for the same action
// again, and the supervisor starts it when its backoff has passed: after 1 s, 2 s, 4 s,
// at most 60 s, with jitter. After 4 attempts or a permanent error the action has
// failed: it is not started again until the state or the desired state changes. Other
// actions in between make no difference: up to 8 intents that did not succeed are
// remembered besides the last one. So Next may ask for an action as long as it wants
// it, and decide by [ActionStatus]:
//
//	case n.Observed.Up:
//		return supervisor.Go(running)
//	case n.Action.Failed:
//		return supervisor.Go(failed)
//	default:
//		return Decision{Action: start}
//
// After an action, Next sees only observations that were begun after its end; one is
// begun at once. An action may return before its effect shows. After a success the same
// action is therefore not started again until something else is observed than when it was
// decided on, or an observation was begun more than Collector.Interval after its end, or
// the desired state has changed. Other states and actions in between make no difference.
// So the state above starts the service once.
//
// Whether something else is observed is decided by the method Equal(O) bool of the
// observed type O, if it has one, and by [reflect.DeepEqual] otherwise. Leave out of O
// what changes all the time, like the time of the collection, or give O an Equal that
// ignores it: if every observation differs, an action that succeeds is started again 8
// times in a row before it waits for the interval.
//
// # States
//
// Each of the user's states stands for a state of the table "service" in package lifecycle
// (docs/machines/service.md), its Phase, and a decision makes at most one transition of
// that table. A decision that is not legal is refused: Hooks.Refused, Status.Refused and
// the Report of a stop say so. Add asks each state what it decides at a shutdown, with
// nothing observed, and refuses a worker whose decision would be refused then. A state is
// a function ([NewState]), or a type of the user's if it has data. States are identified
// by name; the rest of the value, a reason for example, may differ between decisions.
//
// # Dependencies
//
// A service starts after those that it depends on ([Options].DependsOn) and stops
// before them: a decision that starts it, from a state that stands for stopped or
// failed, waits until all of them run. A dependency that goes down later stops no
// dependant, and does not keep one that has ended by itself from restarting; Next sees
// it in Facts.Dependencies. A service whose start has another condition, a dependency
// that has completed for example, sets Options.StartsByItself and decides by
// Facts.Dependencies. A parent is stopped after its children, and plays no part in
// their start.
//
// # Shutdown
//
// A shutdown is a kind of desired state: Snapshot.Shutdown is true, Next is called at
// once, and its states lead to one that stands for stopped or failed. Next is called even
// without a fresh observation, so it may see an old one, or none; an action that has
// failed is retried without a fresh one, too, but not one that has succeeded or was
// abandoned.
//
// Dependants and children stop first; meanwhile the others are held, so that they do not
// take it for a failure. A service stops as soon as its own dependants and children have
// ended, and then has a budget ([Options].StopTimeout, 5 s). When that is used up, its
// action is cancelled with the cause [ErrShuttingDown], and has its grace. Run returns
// what is left in a [Report].
//
// Removing a service, and its own request for a restart ([SignalNeedsRestart]), are
// shutdowns of that service. A restart that does not come to rest within budget and grace
// escalates, and continues when it does. The service then begins in the initial state,
// with the same Worker: its fields, the last observation and the fences stay as they are.
// A Worker that has to begin from nothing resets its fields in the first action of its
// start.
//
// # Journal
//
// With a [Journal] every transition, action and outcome is an entry of package audit,
// and takes effect when that is committed: one commit for a state and its action. A
// failed commit changes nothing, and is tried again, every second while a stop waits
// for it. Until then the service makes no other change: on a full disk what runs keeps
// running, nothing is started or stopped, and a stop reports all of it as left. A
// [FileJournal] continues when the disk has space again, and keeps the last entries of
// each trail ([Keep]).
//
// A restart of the supervisor continues from the last entry; an action that was running is
// reported as interrupted ([KindInterrupted]), and its intent keeps its [Run] ID. Without
// a journal nothing survives a restart or a removal, and IDs and fences begin again. A
// restart counts as a change: what had failed permanently may be tried again.
//
// # Locks
//
// Supervisor.starting, then the mu of a service, then Supervisor.mu or the mu of a drain.
// No two services are locked at once. The inbox of a shard has a mutex that is held alone.
// Next, the worker's other methods, hooks, actions and the journal are called without any
// of them.
//
// # Failures
//
// Add and New return an error that wraps ErrInvalid, ErrExists, ErrCycle or ErrStopped and
// names the field, its value and what is allowed. Negative limits of an action refuse the
// decision. Errors of actions are judged by type, not by text: see [ErrNonRetriable],
// [RetryAfter], [ErrorKind]. Panics in Next, in the worker's other methods and in an
// action stay in their service.
//
// # Where to begin
//
// Users read worker.go and config.go, and the examples. The implementation begins in
// service.go (turn), with commit.go (decide) and slot.go (attempts) next; drain.go and
// stop.go have the ordered stop.
package supervisor
