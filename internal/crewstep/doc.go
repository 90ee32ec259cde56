// Package crewstep runs workflow steps of the kind crew: each gives a task to a member of a crew, and is
// done when the work has landed.
//
// What a step has asked for is written down in the member's assignment, with the step's id. So a worker that
// runs the step again, after another was killed, goes on with the assignment that is there, and one that
// finds it landed only says so. The program of the member is a process of its own: it goes on when the
// worker has ended.
package crewstep
