// Package journal keeps what a controller knows of a run while it is on, so that other processes
// can follow the run, and end it (L7, L11).
//
// A [Journal] is a folder beside the result that the run is to have: of the result DIR/NAME it is
// DIR/.NAME.live, which appears with all its files and is removed once the result is there. It stays
// if the controller dies, if the result cannot be written, and if somebody has ended a run that had not
// begun: what it has is what is known of that run.
//
//	run.json     what was begun, by which process
//	config.yaml  the load file
//	live.ndjson  lines as "pawl load run --json" prints them, the last one torn if the controller died
//	agents/N.pb  the intervals of agent N as it has sent them: records as those of a result
//	trail.jsonl  the trail of the load and of its agents, which the result has, too
//	abort.json   the request to end the run, if there is one
//	lock         held as long as the controller lives
//
// Lines are written by goroutines of their own: the controller never waits for a disk. A disk that
// is slow loses intervals, which a line says, and never a change of state.
//
// A [Reader] reads the lines of a run as they come. A [Feed] makes them, for a journal and for
// standard output.
package journal
