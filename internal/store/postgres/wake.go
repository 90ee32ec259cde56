package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trouble"
)

const (
	// wakeGap is the minimum time from one hint to the next: those in between are sent as one.
	wakeGap = time.Millisecond

	// mostGap bounds the pause while the server is busy; see pauseAfter.
	mostGap = 10 * time.Millisecond

	// wakeLimit bounds the sending of hints; what takes longer is dropped.
	wakeLimit = 2 * time.Second

	listenBackoffMin = 50 * time.Millisecond
	listenBackoffMax = 2 * time.Second
)

var topics = store.Topics

// A wire sends hints on a connection of its own, off the path of transactions.
type wire struct {
	db     *DB
	bell   chan struct{} // 1: something is pending
	letter chan struct{} // 1: a letter is pending, which waits for no gap
	done   chan struct{}
	over   chan struct{}

	mu      sync.Mutex
	pending map[store.Topic]bool
	steps   int // of the pending TopicWork
	asks    int // of them

	letters []letter
	sent    uint64 // the number of the last letter

	recipients map[string]recipient // only the goroutine of the wire uses it
}

func newWire(db *DB) *wire {
	w := &wire{
		db: db, bell: make(chan struct{}, 1), letter: make(chan struct{}, 1), pending: map[store.Topic]bool{},
		done: make(chan struct{}), over: make(chan struct{}), recipients: map[string]recipient{},
	}
	go w.send()
	return w
}

// Wake soon sends the topics to the other processes; see store.Wakeups.
func (db *DB) Wake(steps int, topics ...store.Topic) {
	w := db.wire
	w.mu.Lock()
	for _, t := range topics {
		w.pending[t] = true
	}
	w.steps += steps
	w.mu.Unlock()
	w.alert()
}

// Ask has the next hint of work ask for lent slots; see store.Wakeups.
func (db *DB) Ask(slots int) {
	db.wire.mu.Lock()
	defer db.wire.mu.Unlock()
	db.wire.asks += slots
}

func (w *wire) alert() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// A mailing is what is sent at once: the letters, in their order, and then the hints.
type mailing struct {
	letters []letter
	hints   []string
}

// take returns what is pending.
func (w *wire) take() *mailing {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &mailing{letters: w.letters}
	w.letters = nil
	for t := range w.pending {
		from := w.db.handle
		if t == store.TopicWork {
			from = fmt.Sprintf("%s/%d/%d", from, rand.Uint32(), w.steps)
			if w.asks > 0 && w.db.hears.Load() {
				from += fmt.Sprint(asks, w.asks)
			}
			w.asks = 0
		}
		m.hints = append(m.hints, from+" "+string(t))
	}
	w.steps = 0
	clear(w.pending)
	return m
}

// partingLimit bounds the sending of the last hints when the handle is closed: a command that
// ends at once has to report what it did.
const partingLimit = time.Second

// part sends the pending hints and disconnects.
func (w *wire) part(conn *pgx.Conn) {
	w.mu.Lock()
	pending := len(w.pending)+len(w.letters) > 0
	w.mu.Unlock()
	if pending {
		ctx, cancel := context.WithTimeout(context.Background(), partingLimit)
		defer cancel()
		conn, _ = w.notify(ctx, conn)
	}
	hangUp(conn)
}

// send is the goroutine of the wire. A hint that cannot be sent is dropped.
func (w *wire) send() {
	defer close(w.over)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-w.done
		time.AfterFunc(partingLimit, cancel) // a message may still be on its way
	}()
	var conn *pgx.Conn
	var before time.Duration // what the one before took
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-w.done:
			w.part(conn)
			return
		case <-w.bell:
		}
		var err error
		begun := time.Now()
		if conn, err = w.notify(ctx, conn); err != nil && ctx.Err() == nil {
			w.db.log.Debug("hints were dropped", "error", err)
		}
		took := time.Since(begun)
		gap.Reset(pauseAfter(took, before))
		before = took
		select {
		case <-w.done:
		case <-w.letter:
		case <-gap.C:
		}
	}
}

// pauseAfter returns how long to wait after a hint. While the server is busy, so that one hint after
// the other takes long, the pause is as long as the shorter of the last two took. A single one that
// took long, because the connection was opened or something stalled, holds up nothing: what was
// committed meanwhile has waited as long already.
func pauseAfter(took, before time.Duration) time.Duration {
	return max(wakeGap-took, min(took, before, mostGap))
}

// notify sends what is pending, on a new connection if there is none, or if the present one turns
// out to be broken: who listens has noticed nothing, and would wait.
func (w *wire) notify(ctx context.Context, conn *pgx.Conn) (_ *pgx.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, wakeLimit)
	defer cancel()
	var m *mailing
	for known := conn != nil && !conn.IsClosed(); ; known = false {
		if !known {
			if conn, err = w.db.dial(ctx); err != nil {
				return nil, err
			}
		}
		if m == nil {
			m = w.take()
		}
		err = w.post(ctx, conn, m)
		if err == nil || !known || !conn.IsClosed() {
			return conn, err
		}
	}
}

const notifyAll = "select pg_notify(c, p) from unnest($1::text[], $2::text[]) u(c, p)"

// post sends a mailing in one statement. If the server does not accept it, the hints are sent alone.
func (w *wire) post(ctx context.Context, conn *pgx.Conn, m *mailing) error {
	channels, payloads, fault := w.sealed(ctx, conn, m.letters)
	if fault == nil {
		letters := len(channels)
		for _, h := range m.hints {
			channels, payloads = append(channels, w.db.channel), append(payloads, h)
		}
		if len(channels) > 0 {
			_, fault = conn.Exec(ctx, notifyAll, channels, payloads)
		}
		if fault == nil || letters == 0 {
			return fault
		}
	}
	if conn.IsClosed() || len(m.hints) == 0 {
		return fault
	}
	w.db.log.Debug("messages were dropped", "error", fault)
	_, err := conn.Exec(ctx, "select pg_notify($1, p) from unnest($2::text[]) p", w.db.channel, m.hints)
	return err
}

func (w *wire) stop() {
	close(w.done)
	<-w.over
}

func hangUp(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), wakeLimit)
	defer cancel()
	_ = conn.Close(ctx)
}

// ears are the functions that receive the hints of this process.
type ears struct {
	mu  sync.Mutex
	all map[*func(store.Hint)]bool
}

// add registers f until remove is called.
func (e *ears) add(f *func(store.Hint)) (remove func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = make(map[*func(store.Hint)]bool)
	}
	e.all[f] = true
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.all, f)
	}
}

func (e *ears) tell(h store.Hint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for f := range e.all {
		(*f)(h)
	}
}

// Listen calls f with each hint of another process, one call at a time, until ctx ends; and
// with TopicWork when work is found before the claim cursor (claimcursor.go). After
// every connection but the first it calls f with all topics, since hints may have been lost.
func (db *DB) Listen(ctx context.Context, f func(store.Hint)) error {
	var calls sync.Mutex
	call := func(h store.Hint) {
		calls.Lock()
		defer calls.Unlock()
		f(h)
	}
	defer db.ears.add(&call)()
	backoff := listenBackoffMin
	log := trouble.New(db.log, "hints from other processes stopped; connecting again", "hints from other processes arrive again")
	connected := func() {
		backoff = listenBackoffMin
		log.Note(nil)
	}
	in := newInbox(db.log)
	for again := false; ; again = true {
		err := db.listen(ctx, again, in, connected, call)
		if ctx.Err() != nil {
			return nil
		}
		log.Note(err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, listenBackoffMax)
	}
}

// Hears reports whether the connection that receives hints exists.
func (db *DB) Hears() bool { return db.hears.Load() }

// listen receives hints and messages on one connection until it breaks. It hears once others can
// read the key: only then do hints say that this process takes messages.
func (db *DB) listen(ctx context.Context, again bool, in *inbox, connected func(), f func(store.Hint)) error {
	defer db.hears.Store(false)
	conn, err := db.dial(ctx)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	own := postbox(db.handle)
	for _, channel := range []string{own, db.channel} {
		if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
	}
	if in.seal, err = db.openPostbox(ctx); err != nil {
		return err
	}
	connected()
	db.hears.Store(true)
	if again {
		for _, t := range topics {
			f(store.Hint{Topic: t})
		}
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel == own {
			if m, ok := in.receive(db, n.Payload); ok {
				f(store.Hint{Topic: store.TopicMessages, Message: m})
			}
		} else if from, h, ok := parseHint(n.Payload); ok && from != db.handle {
			f(h)
		}
	}
}

// parseHint reads what a wire has sent: its handle, perhaps with the numbers of a Hint behind it and
// the mark of those who take messages, and the topic. Programs of versions without numbers take all
// before the space for a handle, and those without messages ignore the mark. Whoever may connect to
// the database can send anything, so what has no handle is refused, and so is word of messages.
func parseHint(payload string) (from string, h store.Hint, ok bool) {
	from, topic, ok := strings.Cut(payload, " ")
	from, numbers, numbered := strings.Cut(from, "/")
	if !ok || !isHandle(from) || topic == string(store.TopicMessages) {
		return "", store.Hint{}, false
	}
	h.Topic = store.Topic(topic)
	if numbered {
		switch n, _ := fmt.Sscanf(numbers, "%d/%d"+asks+"%d", &h.First, &h.Steps, &h.Asks); {
		case n < 2:
			h.First, h.Steps = 0, 0
		case n == 3 && h.Asks > 0:
			h.From = from
		default:
			h.Asks = 0
		}
	}
	return from, h, true
}
