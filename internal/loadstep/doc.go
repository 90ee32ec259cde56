// Package loadstep runs workflow steps of the kind load: each runs a load on agents, keeps its result, and
// fails if a threshold is violated.
//
// Each attempt is a run of its own, with its own id and result. A worker that is killed loses its
// connections: the agents end their run by themselves and clean up, and those that it has started end with it.
// When an attempt is canceled the agents abort their run, and the attempt ends once they have cleaned up, or
// after the grace.
package loadstep
