// Package supervisor keeps services converged on what is desired of them (S1 to
// S15). A service is whatever can be looked at and acted on: a program, a
// connection, a tenant. Its user writes a [Worker], which knows how to look at it,
// and its states, each a pure function from a [Snapshot] to a [Decision]. The
// supervisor does the rest: it observes, asks, runs actions, retries them, and
// stops everything in order.
//
// # How it works
//
// Each service has a turn when something has happened: an observation, the outcome
// of an action, another desired state, a call of Wake, a shutdown. In its turn Next
// is asked, and what it decides is done. A collection every second, give or take a
// tenth, finds what nobody told. An idle service has no goroutine: it is an entry in
// the heap of its shard, which is one loop with one timer. What takes time (actions,
// collections, the journal) runs in goroutines of its own, so that a service that is
// stuck in any of them holds up no other. Only Next and hooks run in the loop, and at
// times States, GetInitialState and Config.Random: they must not wait.
//
// # Actions
//
// A service has one action at a time. Its slot is taken in the turn that accepts
// it, and free when the outcome is visible and its goroutine has ended. A second
// action is refused with a [BusyError], and the state that it came with; one with
// the same key asks for nothing new. While an action runs Next is still asked: it may
// wait, change state, or cancel it.
//
// An attempt has a deadline (5 minutes). Then its context is cancelled, with the
// cause [ErrActionTimeout]; 5 seconds later it is abandoned. That is a failure, a
// late result changes nothing, and the slot stays taken until the goroutine ends,
// unless the action allows an overlap.
//
// A retry is another decision, on a fresh snapshot: Next asks for the same action
// again, and the supervisor starts it when its backoff has passed: after 1 s, 2 s,
// 4 s, at most 60 s, with jitter. After 4 attempts, or an error that is permanent, it
// has failed: it is not started again until state or desired state changes, whatever
// is done meanwhile: up to 8 intents that did not succeed are remembered beside the
// last one. So Next may ask for what it wants as long as it wants it, and look at
// [ActionStatus]:
//
//	case n.Observed.Up:
//		return supervisor.Go(running)
//	case n.Action.Failed:
//		return supervisor.Go(failed)
//	default:
//		return Decision{Action: start}
//
// After an action Next sees only observations that were begun after its end; one is
// begun at once. An action may return before its effect shows: after a success the same
// action is not started again until something else is observed than when it was decided
// on, or what was observed was begun more than Collector.Interval after its end, or
// another state is desired. Other states and actions in between change nothing about that.
// So the state above starts once.
//
// Whether something else is observed is decided by the method Equal(O) bool of the observed
// type O, if it has one, and by [reflect.DeepEqual] otherwise. Leave out of O what changes
// all the time, like the time of the collection, or give O an Equal that ignores it: where
// every observation is another one an action that succeeds is started again 8 times in a row
// before it waits for the interval.
//
// # States
//
// A user's own states each stand for a state of the table "service" in package
// lifecycle (docs/machines/service.md), and a decision moves by a row of that table
// at most. A decision that does not is refused: Hooks.Refused, Status.Refused and the Report
// of a stop say so. Add asks each state what it decides at a shutdown, with nothing observed,
// and refuses a worker that would be refused then. A state is a function ([NewState]), or
// a type of one's own where it has something to keep. States are told apart by their names; what else is in the value, a reason
// say, may differ from decision to decision.
//
// # Dependencies
//
// A service starts after those that it depends on ([Options].DependsOn) and stops before
// them: a decision that starts it, from a state that stands for stopped or failed, is not
// taken until all of them run. What goes down later stops nobody, and does not keep one
// that has ended by itself from being started again; Next sees it in Facts.Dependencies.
// A service whose start has another condition, a dependency that has completed, say, sets
// Options.StartsByItself and decides by Facts.Dependencies. A parent is stopped after its
// children, and has no part in their start.
//
// # Shutdown
//
// A shutdown is something that is desired: Snapshot.Shutdown is true, Next is asked at
// once, and its states lead to one that stands for stopped or failed. It passes the
// gates of observations, so Next may see one that is old, or none; an action that has
// failed is tried again without one, but not one that has succeeded or was abandoned.
// Dependants and children stop first; meanwhile the others are held, so that they
// take it for no failure. Each service stops as soon as its own dependants and children
// have ended, and has a budget from then on ([Options].StopTimeout, 5 s); then its action
// is cancelled with the cause [ErrShuttingDown], and has its grace. Run returns what
// is left in a [Report]. Removing a service, and its own wish for a restart
// ([SignalNeedsRestart]), are shutdowns of that service. A restart that does not come
// to rest within budget and grace escalates, and goes on when it does. It begins in the
// initial state, with the same Worker: counters and whatever else the Worker keeps stay as
// they are, and so do its last observation and the fences. A Worker that has to begin from
// nothing sets its fields back in the first action of its start.
//
// # Journal
//
// With a [Journal] every move, action and outcome is an entry of package audit, and
// takes effect when that is committed: one commit for a state and its action. A failed
// commit changes nothing, and is tried again, every second while a stop waits for it.
// Until it is there the service makes no other move: on a full disk what runs goes on
// running, nothing is started or stopped, and a stop reports all of it as left. A
// [FileJournal] goes on when there is room again, and keeps the last entries of each
// trail ([Keep]). A restart goes on with the last entry;
// an action that was running is reported as interrupted ([KindInterrupted]), and
// its intent keeps its [Run] ID. Without a journal nothing survives a restart or a removal, and IDs
// and fences begin anew. A restart counts as a change: what had failed for good may
// be tried again.
//
// # Errors
//
// Add and New refuse with an error that wraps ErrInvalid, ErrExists, ErrCycle or
// ErrStopped and names field, value and what is allowed. Limits of an action's own
// that are below zero refuse the decision. Errors of actions are judged by type, not
// by text: see [ErrNonRetriable], [RetryAfter], [ErrorKind]. Panics in Next, in the
// worker's other methods and in an action stay in their service.
package supervisor
