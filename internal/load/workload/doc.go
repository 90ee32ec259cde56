// Package workload is the engine of a load agent: it prepares files, runs the operations of a
// test from threads of its own, counts them, and deletes what it has created (L9). It is a
// process of its own, so that an agent can kill it whatever the disk does.
//
// # Parts
//
// Main reads a Job and commands and writes frames. A prepared fixes, for one job, which files there
// are: their names, sizes and contents follow from the config, its seed and the index of the agent,
// so that nothing but the manifest has to be remembered. A folder confines every path: it is opened
// once, and everything is reached from it without following a symbolic link.
//
// A thread runs operations, each chosen, issued, timed and counted before the next one begins. It
// is locked to a thread of the system, shares nothing that is written, and allocates nothing. It
// counts into a slot. At the end of an interval it hands the slot to the collector and goes on
// with its other one; if the collector has not returned that one yet, the thread keeps the
// slot that it has, and never waits.
//
// Reads and writes are raw system calls, which the scheduler does not know of: a processor more for each thread
// and two for the rest make up for that. A collection of garbage waits for the longest of these calls, and all threads
// with it; the collector and the frames make so little garbage that this happens every few minutes.
//
// # Files
//
// A run works in TARGET/RUN/agent-N, or in TARGET/RUN if its agents share the files. A set is a
// folder there. Prepared files are called f and their number. Operations create c and d files and folders, with the
// numbers of the agent, the thread and the thing. While a file is renamed it has the suffix ".r".
//
// # What a crash leaves
//
// The manifest lists a thing before it is created. Clean works by it alone, in a new process, and
// deletes nothing else; a folder goes only when it is empty. Folders above that of the run stay.
//
// # Time
//
// All times are of CLOCK_MONOTONIC in nanoseconds. Each operation reads the clock once: its end is
// the beginning of the next.
package workload
