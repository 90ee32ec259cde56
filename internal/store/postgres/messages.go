package postgres

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A message is sent by NOTIFY, on a channel to which its receiver listens, and is sealed
// (postbox.go). What it says was taken comes with all that the sender's caches know of it, so that
// the receiver reports as if it had made the claim itself.

// asks stands behind the numbers of a hint, and before a third one: the sender listens to its postbox
// and asks for slots. Messages of another format need another mark.
const asks = "/m"

// maxLetter bounds a message in bytes. The server takes less than 8000: the seal has 28, and all that
// is sent grows by a third.
const maxLetter = 7999*3/4 - 28

// maxWaiting bounds the messages that wait to be sent while the server cannot be reached.
const maxWaiting = 1000

// A letter is a message, or a part of one, that is encoded and not sealed yet.
type letter struct {
	to   string
	body []byte
}

// Send soon sends a message; see store.Wakeups. If too many wait, the oldest ones are dropped.
func (db *DB) Send(to string, m *store.Message) {
	if !isHandle(to) {
		return
	}
	w := db.wire
	w.mu.Lock()
	w.letters = append(w.letters, w.write(to, m)...)
	if n := len(w.letters) - maxWaiting; n > 0 {
		w.letters = append(w.letters[:0:0], w.letters[n:]...)
	}
	w.mu.Unlock()
	w.alert()
	select {
	case w.letter <- struct{}{}:
	default:
	}
}

// write encodes a message, in several letters if need be. The caller has w.mu.
func (w *wire) write(to string, m *store.Message) (letters []letter) {
	body, count := w.open(m, m.Count), m.Count
	if m.Kind == store.MessageLend {
		for _, r := range m.Routes {
			body = binary.AppendVarint(body, int64(r))
		}
	}
	before, first := new(handing), m.Count // of this letter
	for i := range m.Taken {
		h := w.db.hand(&m.Taken[i], before)
		longer := h.append(body, before)
		if len(longer) > maxLetter && count > first {
			letters = append(letters, letter{to, body})
			body, first = w.open(m, count), count
			longer = h.append(body, new(handing))
		}
		if len(longer) > maxLetter {
			h.xid, h.others = 0, nil // then they are read
			longer = h.append(body, new(handing))
		}
		if count++; len(longer) > maxLetter { // the receiver misses it
			longer, h, first = w.open(m, count), new(handing), count
		}
		body, before = longer, h
	}
	return append(letters, letter{to, body})
}

// open begins a letter, with a number that grows with each one of this handle.
func (w *wire) open(m *store.Message, count int) []byte {
	w.sent++
	b := append(binary.AppendUvarint(make([]byte, 0, 512), uint64(len(w.db.handle))), w.db.handle...)
	b = binary.AppendUvarint(b, w.sent)
	b = append(b, byte(m.Kind))
	b = binary.AppendVarint(b, int64(m.Worker))
	b = binary.AppendUvarint(b, m.Loan)
	return binary.AppendVarint(b, int64(count))
}

// A handing is a step that was taken, with what the caches of this process know of its job, of which
// they then know no more: another process reports it.
type handing struct {
	store.Taken
	entry  int64       // the row that says that the job runs, or 0,
	total  int         // of so many jobs
	xid    xid         // of the rows of the job and its steps, or 0
	others []pawl.Step // all other steps of the job, if xid is known
}

// maxOthers is how many other steps of a job are handed over. If there are more, they are read.
const maxOthers = 20

func (db *DB) hand(t *store.Taken, before *handing) *handing {
	h := &handing{Taken: *t}
	if before.Job != nil && before.Job.Key() == t.Job.Key() {
		return h // the one before has it
	}
	h.entry, h.total = db.running.pass(t.Job.Key())
	if h.xid, h.others = db.cache.pass(t); len(h.others) > maxOthers {
		h.xid, h.others = 0, nil
	}
	return h
}

// records returns its records, or empty ones.
func (h *handing) records() (*pawl.Job, *pawl.Step) {
	if h.Job == nil {
		return new(pawl.Job), new(pawl.Step)
	}
	return h.Job, h.Step
}

// append appends what differs from the handing before.
func (h *handing) append(b []byte, before *handing) []byte {
	job, step := before.records()
	b = stepTable.AppendDiff(jobTable.AppendDiff(b, h.Job, job), h.Step, step)
	b = binary.AppendVarint(b, h.entry-before.entry)
	b = binary.AppendUvarint(b, uint64(h.total))
	b = binary.AppendUvarint(b, uint64(h.xid))
	b = binary.AppendUvarint(b, uint64(len(h.others)))
	for i := range h.others {
		b = stepTable.AppendDiff(b, &h.others[i], h.Step)
	}
	return b
}

// read reads what append has appended.
func (h *handing) read(p *store.Parcel, before *handing) {
	job, step := before.records()
	h.Job, h.Step = jobTable.ReadDiff(p, job), stepTable.ReadDiff(p, step)
	h.entry, h.total, h.xid = before.entry+p.Num(), int(p.Count()), xid(p.Count())
	for range min(p.Count(), maxOthers) {
		h.others = append(h.others, *stepTable.ReadDiff(p, h.Step))
	}
}

// readMessage reads what write has written.
func readMessage(body []byte) (m *store.Message, number uint64, taken []*handing, err error) {
	p := &store.Parcel{Rest: body}
	m = &store.Message{From: string(p.Bytes())}
	number = p.Count()
	m.Kind, m.Worker, m.Loan, m.Count = store.MessageKind(p.Take(1)[0]), rowkey.Worker(p.Num()), p.Count(), int(p.Num())
	if p.Err == nil && !isHandle(m.From) {
		return nil, 0, nil, fmt.Errorf("%q is not a handle", m.From)
	}
	switch m.Kind {
	case store.MessageTake:
		before := new(handing)
		for len(p.Rest) > 0 {
			h := new(handing)
			h.read(p, before)
			m.Taken, taken, before = append(m.Taken, h.Taken), append(taken, h), h
		}
	case store.MessageLend:
		for len(p.Rest) > 0 {
			m.Routes = append(m.Routes, rowkey.Route(p.Num()))
		}
	case store.MessageRecall, store.MessageEnd:
	default:
		p.Fail()
	}
	if len(p.Rest) > 0 {
		p.Fail()
	}
	return m, number, taken, p.Err
}

// adopt has the caches know what was taken for this process.
func (db *DB) adopt(taken []*handing) {
	for _, h := range taken {
		db.running.adopt(h.entry, h.total, h.Job.Key())
		if h.xid != 0 {
			db.cache.adopt(h)
		}
	}
}

// pass forgets a job that another process reports, and returns the version that all its rows have,
// and its steps but the one given; or 0 if they are not all known as they are given.
func (c *rowCache) pass(t *store.Taken) (v xid, others []pawl.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[t.Step.Job]
	delete(c.jobs, t.Step.Job)
	if j == nil || j.row == nil || !j.read || j.waitingAt != j.xid || len(j.steps) == maxCachedSteps || !jobTable.Same(j.row, t.Job) {
		return 0, nil
	}
	for i := range j.steps {
		switch o := &j.steps[i]; {
		case o.xid != j.xid || o.row.Ord == t.Step.Ord && !stepTable.Same(&o.row, t.Step):
			return 0, nil
		case o.row.Ord != t.Step.Ord:
			others = append(others, o.row)
		}
	}
	return j.xid, others
}

// adopt keeps the rows of a job that another process has made, unless the job is known.
func (c *rowCache) adopt(h *handing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs == nil {
		c.jobs, c.workers = make(map[rowkey.Job]*cachedJob), make(map[rowkey.Worker]cachedWorker)
	}
	if c.jobs[h.Job.Key()] != nil {
		return
	}
	c.putJob(h.Job, h.xid)
	c.putStep(h.Step, h.xid)
	for i := range h.others {
		c.putStep(&h.others[i], h.xid)
	}
	if j := c.jobs[h.Job.Key()]; j != nil {
		j.read, j.waitingAt = true, h.xid
	}
}

// pass returns the row of a job whose end another process will see, or 0, and how many jobs it is
// of; and forgets it.
func (r *runningRows) pass(job rowkey.Job) (id int64, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rows := r.of[job]; len(rows) == 1 {
		id, total = rows[0].id, len(rows[0].jobs)
	}
	delete(r.of, job)
	return id, total
}

// adopt watches a row that another process has made, of a job and so many in all. The row is deleted
// once that many have been adopted and have ended.
func (r *runningRows) adopt(id int64, total int, job rowkey.Job) {
	if total == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) >= maxRunning {
		clear(r.of)
	}
	if r.of == nil {
		r.of = make(map[rowkey.Job][]*runningRow)
	}
	row := r.partial[id]
	if row == nil {
		row = &runningRow{id: id, left: total}
	}
	row.jobs = append(row.jobs, job)
	if len(row.jobs) >= total {
		delete(r.partial, id)
	} else {
		if len(r.partial) > maxPartial || r.partial == nil {
			r.partial = make(map[int64]*runningRow)
		}
		r.partial[id] = row
	}
	r.of[job] = append(r.of[job], row)
}

// maxPartial bounds the rows of which a part is not known yet.
const maxPartial = 1000
