// Package feed serves the feed of a store to many readers.
//
// A [Hub] reads the feed once for all of them, only while there is one, when it is woken and at
// intervals. What it has read is in a ring of batches. A [Stream] is a reader: it has its own
// place in the ring and takes batches at its own speed, so that one that is slow delays neither
// the hub nor another stream, and costs no memory. If the ring has overtaken it, it gets a gap.
//
// A stream that goes on from a token is attached to the ring first. Then it reads from the token
// by itself until nothing is left, and takes from the ring what it has not seen by then. So
// nothing is missed between the two.
//
// [order] puts the events of a batch in order: within an entity by sequence, and otherwise by
// time. A page of a longer read may have an event whose predecessor is on a later page; it waits
// for that page.
package feed
