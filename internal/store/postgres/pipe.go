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
	calls           []call
	unreadableSteps int          // rows that could not be decoded
	soon            *atomic.Bool // not nil: the reply is expected soon; true while a caller waits for one
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

// run sends the queued statements and reads the results. After an error of one statement,
// those behind it were not run.
func (p *pipe) run(ctx context.Context) error {
	calls := p.calls
	p.calls = nil
	sends := ctx.Err() == nil && !p.conn.IsClosed() && !p.conn.IsBusy()
	line := p.conn.StartPipeline(ctx)
	buffer := writeBufferOf(p.conn)
	if sends {
		buffer.lend(p.conn, calls)
	}
	known := preparedOn(p.conn)
	for i := range calls {
		prepare(line, known, calls[:i+1])
		line.SendQueryPrepared(calls[i].statement.name, calls[i].params, inBinary, inBinary)
	}
	if err := line.Sync(); err != nil {
		return errors.Join(err, line.Close())
	}
	buffer.takeBack(p.conn)
	if p.soon != nil && p.soon.CompareAndSwap(false, true) {
		awaitAnswer(p.conn.Conn(), answerSoon)
		p.soon.Store(false)
	}
	for i := range calls {
		if err := p.answer(line, &calls[i]); err != nil {
			_ = line.Close()
			return err
		}
	}
	return line.Close()
}

// runWithin runs within the limit, and no context ends it: a deadline of the connection costs
// less than a context that the driver watches.
func (p *pipe) runWithin(limit time.Duration) error {
	conn := p.conn.Conn()
	_ = conn.SetDeadline(time.Now().Add(limit))
	err := p.run(context.Background())
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
