// Package workload is the engine of a load agent: it prepares files, runs the operations of a
// test from threads of its own, counts them, and deletes what it has created (L9). It is a
// process of its own, so that an agent can kill it whatever the disk does.
package workload
