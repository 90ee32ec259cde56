package postgres

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/store"
)

// Most idempotency keys are new. An optimistic transaction takes them for new without a look, and
// stores them together with the responses to their requests. If one is known, or is held, nothing has
// happened, and the transaction that then reads finds the response.

// keyPause is how long an optimistic transaction waits for another one that has stored a key, and from the
// statement that stores its own to its end for any other lock, as that of a row: then it is tried again, and
// reads.
const keyPause = "50ms"

var (
	newAnswer  = single("new_answer", answerColumns, answering(""))
	newAnswers = &statement{"new_answers", fmt.Sprintf("with done as (%s) select %s from done",
		answering(" from (select * from "+given(answerColumns)+" u order by workspace, key) u"), counted(fmt.Sprintf("$%d", len(answerColumns)+1)))}
)

// answering stores keys that are new, or have expired, with their responses. It leaves out those that a
// user's transaction has locked (see lockKeys).
func answering(from string) string {
	return fmt.Sprintf(`insert into idempotency (%s, created_at) select %s, %s%s
  where set_config('lock_timeout', '%s', true) <> '' and case when pg_try_advisory_lock_shared(%[6]s) then pg_advisory_unlock_shared(%[6]s) else false end
  on conflict (workspace, key) do update set endpoint = excluded.endpoint, request_hash = excluded.request_hash, status = excluded.status,
    body = excluded.body, expires_at = excluded.expires_at, created_at = excluded.created_at
  where idempotency.expires_at <= %[3]s returning 1`, names("", answerColumns), names("u", answerColumns), clock, from, keyPause, lockOf("u."))
}

// assumeNew takes the keys of a query for new.
func (r *reading) assumeNew() {
	for _, k := range r.q.Keys {
		r.Keys[k] = &store.Answer{New: true}
	}
}

// unanswered reports whether a key that was taken for new gets no response. Nothing verifies such a key.
func (r *reading) unanswered(ch *store.Changes) bool {
	for k := range r.Keys {
		if ch.Answers[k] == nil {
			return true
		}
	}
	return false
}

// newAnswers stores the responses under keys that were taken for new.
func (w *writing) newAnswers(r *rows) {
	switch r.len() {
	case 0:
	case 1:
		w.addParts(newAnswer, r, 1)
	default:
		w.add(newAnswers, append(r.params(), num(int64(r.len())))...)
	}
}
