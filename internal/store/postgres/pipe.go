package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/store"
)

// A statement is prepared on each connection that uses it, with its first call there: most
// connections use few of them. Parameters and results are binary.
type statement struct {
	name string
	sql  string
}

// inBinary is the format of every parameter and every result.
var inBinary = []int16{1}

// A pipe sends several statements together and reads their results in order: one round trip,
// whatever their number.
type pipe struct {
	conn            *pgconn.PgConn
	log             *slog.Logger
	faults          *store.Faults
	calls           []call       // queued
	unreadableSteps int          // rows that could not be decoded
	soon            *atomic.Bool // not nil: the reply is expected soon; true while a caller waits for one

	line *pgconn.Pipeline // nil: closed
	sent []call           // since it was opened
	got  int              // of these, how many results were read
}

// answerSoon is how long a thread of its own waits for a reply that is expected soon.
// Otherwise its goroutine would be parked, and an otherwise idle runtime put to sleep and
// woken for each short commit: on two processors that was a tenth of a chain's time. Only one
// caller at a time does so, so that another processor remains for the rest.
const answerSoon = 5 * time.Millisecond

type call struct {
	statement *statement
	part      *part // what the statement is in a fused one; nil: nothing
	prepares  bool  // the statement is prepared before this call
	last      bool  // of what was sent as one part
	params    [][]byte
	row       func(*cursor) // nil: rows are dropped
	tag       *pgconn.CommandTag
}

// add queues a statement. row is called with each row of its result. A row that it cannot
// decode leaves its fault in the cursor's err, is logged once and omitted.
func (p *pipe) add(s *statement, row func(*cursor), params ...[]byte) {
	p.calls = append(p.calls, call{statement: s, params: params, row: row})
}

// addTagged queues a statement whose tag is stored in tag.
func (p *pipe) addTagged(s *statement, tag *pgconn.CommandTag, params ...[]byte) {
	p.calls = append(p.calls, call{statement: s, params: params, tag: tag})
}

// run sends the queued statements and reads the results, those of earlier parts, too. After an
// error of one statement, those behind it were not run.
func (p *pipe) run(ctx context.Context) error {
	if err := p.send(ctx); err != nil {
		return err
	}
	if p.soon != nil && p.soon.CompareAndSwap(false, true) {
		awaitAnswer(p.conn.Conn(), answerSoon)
		p.soon.Store(false)
	}
	if err := p.receive(); err != nil {
		return err
	}
	return p.close()
}

// again sends the queued statements of a transaction that is under way on the pipe, and reads all
// results.
func (p *pipe) again() error {
	if err := p.send(context.Background()); err != nil {
		return err
	}
	return p.receive()
}

// send sends the queued statements as one part of what the pipe is used for. Several parts belong to
// a transaction that the first one begins: after an error in one, those of all later ones fail. If it
// was not begun, they would be transactions of their own: a part that is sent before the results of
// the first are read has to begin with a statement that fails then.
// Behind a part the server waits for the next for a limited time, as everywhere in a transaction.
func (p *pipe) send(ctx context.Context) error {
	calls, from := p.calls, len(p.sent)
	p.calls = nil
	sends := p.line != nil || ctx.Err() == nil && !p.conn.IsClosed() && !p.conn.IsBusy()
	if p.line == nil {
		p.line = p.conn.StartPipeline(ctx)
	}
	if from == 0 {
		p.sent = calls
	} else {
		p.sent = append(p.sent, calls...)
	}
	buffer, known := writeBufferOf(p.conn), preparedOn(p.conn)
	if sends {
		buffer.lend(p.conn, calls)
	}
	for i := from; i < len(p.sent); i++ {
		prepare(p.line, known, p.sent[:i+1])
		p.line.SendQueryPrepared(p.sent[i].statement.name, p.sent[i].params, inBinary, inBinary)
	}
	if n := len(p.sent); n > from {
		p.sent[n-1].last = true
	}
	if err := p.line.Sync(); err != nil {
		p.got = len(p.sent) // nothing can be read
		return errors.Join(err, p.close())
	}
	buffer.takeBack(p.conn)
	return nil
}

// receive reads the results of what was sent.
func (p *pipe) receive() error { return p.receiveFirst(len(p.sent)) }

// receiveFirst reads the results of the first n statements that were sent.
func (p *pipe) receiveFirst(n int) error {
	for p.got < n {
		if err := p.next(); err != nil {
			_ = p.close()
			return err
		}
	}
	return nil
}

// next reads the results of the next statement. After an error it goes on behind the part.
func (p *pipe) next() error {
	err := p.answer(p.line, &p.sent[p.got])
	switch p.got++; {
	case severed(err):
		p.got = len(p.sent)
	case err != nil:
		for !p.sent[p.got-1].last {
			p.got++
		}
		_, _ = p.line.GetResults() // the end of the part
	}
	return err
}

// close drops the results that were not read, but remembers what the statements have prepared.
func (p *pipe) close() error {
	for p.got < len(p.sent) {
		_ = p.next()
	}
	err := p.line.Close()
	p.line, p.sent, p.got = nil, nil, 0
	return err
}

// runWithin runs within the limit, and no context ends it: a deadline of the connection costs
// less than a context that the driver watches.
func (p *pipe) runWithin(limit time.Duration) error {
	return p.within(limit, func() error { return p.run(context.Background()) })
}

func (p *pipe) within(limit time.Duration, run func() error) error {
	conn := p.conn.Conn()
	_ = conn.SetDeadline(time.Now().Add(limit))
	err := run()
	if !severed(err) { // else it is being closed, with another deadline
		_ = conn.SetDeadline(time.Time{})
	}
	return err
}

func (p *pipe) answer(line *pgconn.Pipeline, c *call) error {
	if c.prepares {
		if _, err := line.GetResults(); err != nil {
			return fmt.Errorf("prepare %s: %w", c.statement.name, err)
		}
		preparedOn(p.conn)[c.statement] = true
	}
	res, err := line.GetResults()
	if err != nil {
		return err
	}
	reader, ok := res.(*pgconn.ResultReader)
	if !ok {
		return errors.New("the pipeline is out of step")
	}
	var cur cursor
	for reader.NextRow() {
		cur = cursor{vals: reader.Values()}
		p.read(c, &cur)
	}
	tag, err := reader.Close()
	if c.tag != nil {
		*c.tag = tag
	}
	if c.last && err == nil {
		_, err = line.GetResults() // the end of the part
	}
	return err
}

// read passes on a row. A row that cannot be decoded must not stop the others.
func (p *pipe) read(c *call, cur *cursor) {
	if c.row == nil {
		return
	}
	c.row(cur)
	if cur.err == nil {
		return
	}
	p.unreadableSteps++
	first := cursor{vals: cur.vals}
	if key := first.num(); p.faults.New(fmt.Sprint(c.statement.name, cur.vals[0], cur.err)) {
		p.log.Error("row left out", "statement", c.statement.name, "key", key, "error", cur.err)
	}
}

// prepare has the statement of the last call prepared before it, unless it is already. What comes
// before has been executed by then: a statement that begins a transaction has to be the first of
// it, and limits of waits hold for what follows.
func prepare(line *pgconn.Pipeline, known map[*statement]bool, calls []call) {
	before, c := calls[:len(calls)-1], &calls[len(calls)-1]
	if known[c.statement] || slices.ContainsFunc(before, func(b call) bool { return b.prepares && b.statement == c.statement }) {
		return
	}
	c.prepares = true
	line.SendPrepare(c.statement.name, c.statement.sql, nil)
}

// preparedOn returns the statements that are prepared on a connection.
func preparedOn(conn *pgconn.PgConn) map[*statement]bool {
	const key = "pawl prepared"
	m, ok := conn.CustomData()[key].(map[*statement]bool)
	if !ok {
		m = make(map[*statement]bool)
		conn.CustomData()[key] = m
	}
	return m
}
