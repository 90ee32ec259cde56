package engine

import (
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A turned is the turn of a worker as a command found it.
type turned struct {
	worker rowkey.Worker
	was    store.Turn
	set    bool // an earlier command of the transaction has set it
}

// turn returns the turn of a remote worker; a local worker has none.
func (t *tx) turn(worker rowkey.Worker) (n store.Turn, has bool) {
	if n, has = t.turns[worker]; has {
		return n, true
	}
	n, has = t.facts.Turns[worker]
	return n, has
}

func (t *tx) setTurn(worker rowkey.Worker, n store.Turn) {
	was, set := t.turns[worker]
	t.journal.turns = append(t.journal.turns, turned{worker, was, set})
	if t.turns == nil {
		t.turns = make(map[rowkey.Worker]store.Turn)
	}
	t.turns[worker] = n
}

func (t *tx) restoreTurns() {
	for i := len(t.journal.turns) - 1; i >= 0; i-- {
		if was := t.journal.turns[i]; was.set {
			t.turns[was.worker] = was.was
		} else {
			delete(t.turns, was.worker)
		}
	}
}

var (
	// errOvertaken ends the wait of an exchange: a later one has begun.
	errOvertaken = errors.New("a later exchange of the worker has begun")

	// errRepeated is the refusal of an exchange that is repeated, and has not asked what
	// its worker holds.
	errRepeated = errors.New("the exchange is repeated")
)

// A speaker is the place of one exchange in the conversation with its worker. Only what
// takes the turn may claim, and nothing that a later exchange has overtaken: an answer that
// nobody reads any more must not have steps.
type speaker struct {
	of       rowkey.Worker
	number   int64
	compares bool // the query asks what the worker holds

	began    bool // an earlier commit of the exchange has taken the turn
	at       store.Turn
	repeated bool // it claims nothing: its first copy may have claimed
}

// take takes the turn, or checks that the exchange still has it.
func (s *speaker) take(t *tx) error {
	now, has := t.turn(s.of)
	switch {
	case !has:
		return &pawl.Error{Kind: pawl.Conflict, Message: "the worker is not remote", Hint: "a worker that is registered through a server can exchange"}
	case s.began && now != s.at:
		return errOvertaken
	case s.began:
		return nil
	case s.number < now.Number:
		return &link.TurnError{Turn: s.number, Current: now.Number}
	}
	if s.repeated = s.number == now.Number; s.repeated && !s.compares {
		return errRepeated
	}
	s.at = store.Turn{Number: s.number}
	if s.repeated {
		s.at.Tries = now.Tries + 1
	}
	t.setTurn(s.of, s.at)
	return nil
}
