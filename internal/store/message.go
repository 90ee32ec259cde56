package store

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A Message goes from one process to another, about slots of a worker that the one lends to the
// other (package engine). Like a hint it may be lost or come late. Messages of one process come in
// their order, and each at most once.
type Message struct {
	Kind   MessageKind
	From   string         // the handle of the sender, set by the store
	Worker rowkey.Worker  // whose slots they are
	Loan   uint64         // a random number
	Count  int            // of slots of the loan, all in all: lent so far, or taken so far without those of this message
	Routes []rowkey.Route // of MessageLend: what the worker serves
	Taken  []Taken        // of MessageTake
}

// A MessageKind says what a message is about.
type MessageKind byte

// The kinds of messages.
const (
	MessageLend   MessageKind = 'l' // to the borrower: so many slots are lent
	MessageTake   MessageKind = 't' // to the lender: these steps were claimed for the worker
	MessageRecall MessageKind = 'r' // to the borrower: take nothing more
	MessageEnd    MessageKind = 'e' // to the lender: nothing more is taken
)

// Taken is a step that was claimed for a worker of another process, in the commit that made its job.
// A message has about 4 KB of each at most: larger ones are dropped.
type Taken struct {
	Job  *pawl.Job // with its bodies
	Step *pawl.Step
}
