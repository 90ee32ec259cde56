package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

var errAborted = errors.New("the transaction was aborted")

// The statements of the writing half: one per kind of change.
var (
	newDefinitions  = &statement{"new_definitions", insert("definition", definitionColumns, "on conflict (id) do nothing")}
	newWorkers      = &statement{"new_workers", insert("worker", workerTable.fresh, "")}
	newJobs         = &statement{"new_jobs", insert("job", jobTable.fresh, "")}
	newSteps        = &statement{"new_steps", insert("step", stepTable.fresh, "")}
	setWorkers      = &statement{"set_workers", update(workerTable)}
	setJobs         = &statement{"set_jobs", update(jobTable)}
	setSteps        = &statement{"set_steps", update(stepTable)}
	newEntries      = &statement{"new_entries", insert("audit", trailColumns, "")}
	newWorkerRows   = &statement{"new_worker_entries", insert("worker_audit", workerEntryColumns, "")}
	newScheduleRows = &statement{"new_schedule_entries", insert("schedule_audit", scheduleEntryColumns, "")}
	newTokenRows    = &statement{"new_token_entries", insert("token_audit", tokenEntryColumns, "")}
	newPauseRows    = &statement{"new_pause_entries", insert("queue_pause_audit", pauseEntryColumns, "")}
	newWebhookRows  = &statement{"new_webhook_entries", insert("webhook_audit", webhookEntryColumns, "")}
	newRefusals     = &statement{"new_refusals", insert("refusal", refusalColumns, "")}
	setAnswers      = &statement{"set_answers", "update idempotency t set endpoint = u.endpoint, request_hash = u.request_hash, status = u.status, body = u.body, expires_at = u.expires_at from " +
		found("idempotency", answerColumns, answerColumns[:2], "")}
	dropKeys = &statement{"drop_keys", "delete from idempotency t using " + found("idempotency", answerColumns[:2], answerColumns[:2], "")}
)

// A writing is a set of changes in the form that the server accepts.
type writing struct {
	calls                     []call
	room                      *room // of the parameters
	alike                     *alikeStatements
	optimistic                bool     // no transaction was begun
	fused                     bool     // it is one statement, which returns the stamp
	values                    [][]byte // the parameters of the parts
	stamp                     stamp
	begun                     []runningRow
	inserts, updates, entries int64
	err                       error
}

// encode prepares the changes before anything is sent.
func (db *DB) encode(f *reading, ch *store.Changes) (*writing, error) {
	w := &writing{calls: make([]call, 0, maxParts), optimistic: f.optimistic, room: f.room, alike: &db.alikeStatements}
	if f.written != nil {
		w.updates = f.written.updates
	}
	w.verifyTheWorkers(f)
	w.definitions(ch.Definitions)
	w.schedules(ch)
	w.tokens(ch)
	w.pauses(ch)
	w.webhooks(ch)
	w.workers(ch)
	w.turns(ch.Turns)
	w.running(f, ch) // before the others drop what was found
	w.jobs(f, ch)
	w.steps(f, ch)
	w.versions(ch.Versions)
	w.quotas(ch.Quotas)
	w.reservations(ch)
	w.signals(ch)
	w.trail(ch.Entries, f.Now)
	w.refusals(ch.Refusals)
	w.answers(f, ch.Answers)
	w.check(w.complete(ch))
	return w, w.err
}

// complete checks that the queued statements write all records: the server does not report a
// statement that was not sent, nor an insert of fewer rows.
func (w *writing) complete(ch *store.Changes) error {
	inserts := len(ch.Definitions) + len(ch.NewSchedules) + len(ch.NewTokens) + len(ch.NewPauses) + len(ch.NewWebhooks) + len(ch.NewWorkers) + len(ch.NewJobs) + len(ch.NewSteps)
	updates := len(ch.Schedules) + len(ch.Tokens) + len(ch.Pauses) + len(ch.Webhooks) + len(ch.Workers) + len(ch.Jobs) + len(ch.Steps)
	if w.inserts != int64(inserts) || w.updates != int64(updates) {
		return fmt.Errorf("%d new records and %d changes were to be written as %d and %d", inserts, updates, w.inserts, w.updates)
	}
	return nil
}

// queue passes the statements to a pipe, and the one that returns the stamp.
func (w *writing) queue(p *pipe) {
	p.calls = w.calls
	if !w.fused {
		p.add(stamped, w.stamp.read)
	}
}

func (w *writing) add(s *statement, params ...[]byte) {
	w.calls = append(w.calls, call{statement: s, params: params})
}

// addArrays queues a statement on rows, or its part if it has one and there are few new rows.
func (w *writing) addArrays(s *statement, r *rows, more ...[]byte) {
	if p := newFew[s]; p != nil && r.len() <= fewRows {
		w.addPart(p, r.params()...)
		return
	}
	w.add(s, append(r.params(), more...)...)
}

// addRows queues a statement on new rows, unless there are none. If there are many, what they share
// in a column may be sent as a value.
func (w *writing) addRows(s *statement, r *rows) {
	switch n := r.len(); {
	case n == 0:
	case n > fewRows && r.pick:
		alike, same := w.alike.of(s, r.alike())
		w.add(alike, r.split(same)...)
	default:
		w.addArrays(s, r)
	}
}

func (w *writing) check(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writing) definitions(list []*pawl.Definition) {
	r := collect(definitionColumns, len(list))
	for _, d := range list {
		r.num(int64(d.Key))
		r.blob(d.Hash[:])
		r.text(d.Name)
		r.blob(d.Source)
		r.num(d.CreatedAt)
	}
	w.insert(newDefinitions, r)
}

func (w *writing) workers(ch *store.Changes) {
	for _, v := range ch.NewWorkers {
		w.check(metadata(v))
	}
	for _, u := range ch.Workers {
		w.check(metadata(u.Record))
	}
	r, err := workerTable.rowsOf(ch.NewWorkers)
	w.check(err)
	w.insert(newWorkers, r)
	change(w, setWorkers, workerTable, ch.Workers)
}

// metadata refuses metadata that the view workers could not show as JSON.
func metadata(v *pawl.Worker) error {
	if v.Metadata != nil && !(json.Valid(v.Metadata) && utf8.Valid(v.Metadata)) {
		return pawl.Errorf(pawl.Invalid, "metadata of worker %s: want JSON", v.ID.Public(pawl.WorkerPrefix))
	}
	return nil
}

func (w *writing) jobs(f *reading, ch *store.Changes) {
	r, err := jobTable.newRows(w.room, ch.NewJobs)
	w.check(err)
	w.insertAny(newJobs, newJob, r)
	others := w.moveJobs(f, ch.Jobs)
	w.verifyTheJobs(f)
	change(w, setJobs, jobTable, others)
}

func (w *writing) steps(f *reading, ch *store.Changes) {
	r, err := stepTable.newRows(w.room, ch.NewSteps)
	w.check(err)
	w.insertAny(newSteps, newStep, r)
	others := w.moveSteps(f, ch.Steps)
	w.verifyTheSteps(f)
	change(w, setSteps, stepTable, others)
}

// change queues a statement that writes all columns, unless there are no updates.
func change[R any](w *writing, s *statement, t *table[R], updates []store.Update[*R]) {
	if len(updates) == 0 {
		return
	}
	r := collect(t.change, len(updates))
	for _, u := range updates {
		w.check(t.addChange(r, u.Record, u.Was))
	}
	w.update(s, r, len(updates))
}

// insert queues a statement that inserts the rows, unless there are none.
func (w *writing) insert(s *statement, r *rows) {
	w.addRows(s, r)
	w.inserts += int64(r.len())
}

// insertAny does the same, with a parameter per value if there is only one row.
func (w *writing) insertAny(many *statement, one *part, r *rows) {
	if !r.flat {
		w.insert(many, r)
		return
	}
	w.addParts(one, r, 1)
	w.inserts += int64(r.len())
}

func (w *writing) update(s *statement, r *rows, n int) {
	w.addArrays(s, r, num(int64(n)))
	w.updates += int64(n)
}

// trail writes entries, and at what time to the feed.
func (w *writing) trail(entries []store.Entry, at int64) {
	packed := make([]*store.Entry, 0, len(entries))
	workers, schedules := collect(workerEntryColumns, 0), collect(scheduleEntryColumns, 0)
	tokens, pauses, webhooks := collect(tokenEntryColumns, 0), collect(pauseEntryColumns, 0), collect(webhookEntryColumns, 0)
	for i := range entries {
		switch e := &entries[i]; e.Kind {
		case kindWorker:
			workers.longEntry(e)
		case kindSchedule:
			schedules.longEntry(e)
		case kindToken:
			tokens.longEntry(e)
		case kindPause:
			pauses.longEntry(e)
		case kindWebhook:
			webhooks.longEntry(e)
		default:
			packed = append(packed, e)
		}
	}
	rows := store.Pack(packed)
	r := packedRows(w.room, rows, len(rows) <= fewEntries, true)
	switch {
	case !r.flat:
		w.addRows(newEntries, r)
	case r.len() > 0:
		w.addParts(newFewEntries[r.len()], r, r.len())
	}
	w.addRows(newWorkerRows, workers)
	w.addRows(newScheduleRows, schedules)
	w.addRows(newTokenRows, tokens)
	w.addRows(newPauseRows, pauses)
	w.addRows(newWebhookRows, webhooks)
	w.entries = int64(len(entries))
	if fed := store.FeedRowsOf(rows, entries); fed != nil {
		w.addPart(newFed, num(at), fed)
	}
}

// packedRows collects rows of the trail of jobs and steps.
func packedRows(room *room, packed []store.Packed, flat, pick bool) *rows {
	r := collect(trailColumns, len(packed))
	r.room, r.flat, r.pick, r.more = room, flat, pick, 5+moreBytes(packed)/max(len(packed), 1) // with the length
	for i := range packed {
		r.entries(packed[i])
	}
	return r
}

// moreBytes returns how long the lists of rows are together.
func moreBytes(packed []store.Packed) (n int) {
	for i := range packed {
		n += len(packed[i].More)
	}
	return n
}

func (w *writing) refusals(list []pawl.Refusal) {
	r := collect(refusalColumns, len(list))
	for _, f := range list {
		r.num(int64(f.Job))
		r.num(int64(f.Ord))
		r.num(f.At)
		r.num(int64(f.Claim))
		r.text(string(f.Event))
		r.text(f.Actor)
		r.text(f.Why)
		r.body(f.Data)
	}
	w.addRows(newRefusals, r)
}

// answers stores the responses under new keys, and deletes the new keys without one. An optimistic
// transaction has not taken them before.
func (w *writing) answers(f *reading, answers map[store.IdempotencyKey]*store.Answer) {
	r := collect(answerColumns, len(answers))
	r.flat = f.optimistic && len(answers) == 1
	workspaces, keys := answerRows(r, f.Facts, answers)
	if f.optimistic {
		w.newAnswers(r)
		return
	}
	w.addRows(setAnswers, r)
	if len(keys) > 0 {
		w.add(dropKeys, texts(workspaces), texts(keys))
	}
}

// answerRows collects the answers to new keys, and lists the new keys without one.
func answerRows(r *rows, f *store.Facts, answers map[store.IdempotencyKey]*store.Answer) (workspaces, keys []string) {
	for k, known := range f.Keys {
		a := answers[k]
		switch {
		case !known.New:
		case a == nil:
			workspaces, keys = append(workspaces, k.Workspace), append(keys, k.Key)
		default:
			r.text(k.Workspace)
			r.text(k.Key)
			r.text(a.Endpoint)
			r.blob(a.RequestHash[:])
			r.num(int64(a.Status))
			r.blob(a.Body)
			r.num(a.ExpiresAt)
		}
	}
	return workspaces, keys
}
