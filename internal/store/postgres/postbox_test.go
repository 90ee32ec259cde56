package postgres

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	neturl "net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
)

// A notebook has what was logged.
type notebook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notebook) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *notebook) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Count(n.b.String(), text)
}

// logged opens a handle, and returns what it logs.
func logged(t *testing.T, url string) (*DB, *notebook) {
	t.Helper()
	n := new(notebook)
	db, err := Open(t.Context(), Config{URL: url, Log: slog.New(slog.NewTextHandler(n, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, n
}

// stranger connects as a role that has no right but to connect, and listens to a channel.
func stranger(t *testing.T, db *DB, channel string) *pgx.Conn {
	t.Helper()
	role := "stranger_" + db.handle
	execute(t, db, "create role "+role+" login")
	t.Cleanup(func() {
		if _, err := db.pool.Exec(context.Background(), "drop role "+role); err != nil {
			t.Error(err)
		}
	})
	u, err := neturl.Parse(db.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = neturl.User(role)
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "listen "+pgx.Identifier{channel}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	return conn
}

func noteOf(t *testing.T, db *DB, handle string) []byte {
	t.Helper()
	var key []byte
	if err := db.pool.QueryRow(t.Context(), "select note from hold where name = $1", "postbox/"+handle).Scan(&key); err != nil {
		t.Fatal(err)
	}
	return key
}

func sealOf(t *testing.T, handle string, key []byte) *seal {
	t.Helper()
	s, err := newSeal(handle, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAStrangerSendsAndReadsNothing: a role that may only connect reads no message, and whatever it
// sends does nothing, beyond one warning: garbage, what was sent before, what another key or
// another receiver was meant for, hints that would spoil the messages of others. Hints and messages
// still arrive.
func TestAStrangerSendsAndReadsNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.Copy(t, migrated)
	db, log := logged(t, url)
	sender := open(t, url)
	heard, back := listening(t, db), listening(t, sender)
	conn := stranger(t, db, postbox(db.handle))
	if _, err := conn.Exec(t.Context(), "select note from hold"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Fatalf("the stranger reads the keys: %v", err)
	}
	const job, secret = 1<<62 + 5, "kept-from-strangers"
	m := &store.Message{Kind: store.MessageTake, Worker: 7, Loan: 1 << 60, Taken: []store.Taken{{Job: &pawl.Job{Workflow: secret}, Step: &pawl.Step{StepKey: pawl.StepKey{Job: job, Ord: 1}, Claims: 2}}}}
	sender.Send(db.handle, m)
	if got := next(t, heard).Message; got == nil || len(got.Taken) != 1 || got.Taken[0].Step.Job != job || got.Taken[0].Job.Workflow != secret {
		t.Fatalf("came as %+v", got)
	}
	n, err := conn.WaitForNotification(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := base64.RawStdEncoding.DecodeString(n.Payload)
	if err != nil || bytes.Contains(sealed, []byte(secret)) || bytes.Contains(sealed, []byte(sender.handle)) {
		t.Errorf("%q can be read, %v", n.Payload, err)
	}

	key, plain := noteOf(t, db, db.handle), written(sender, m)
	own := sealOf(t, db.handle, key)
	nobody := &DB{handle: "\xff", wire: &wire{}}
	nobody.wire.db = nobody
	for name, payload := range map[string]string{
		"empty": "", "no base64": "!", "short": "AA", "long": strings.Repeat("A", 7000), "in the clear": base64.RawStdEncoding.EncodeToString(plain),
		"sent before":             n.Payload,
		"of another key":          sealOf(t, db.handle, make([]byte, keySize)).close(plain),
		"for another handle":      sealOf(t, sender.handle, key).close(plain),
		"with a bit turned":       turned(own.close(plain)),
		"of an unknown kind":      own.close(written(sender, &store.Message{Kind: 'x'})),
		"with bytes behind":       own.close(append(written(sender, &store.Message{Kind: store.MessageEnd}), 0)),
		"that ends early":         own.close(plain[:len(plain)-1]),
		"empty, sealed":           own.close(nil),
		"of what is not a handle": own.close(written(nobody, &store.Message{Kind: store.MessageEnd})),
	} {
		if _, err := conn.Exec(t.Context(), "select pg_notify($1, $2)", postbox(db.handle), payload); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, hint := range []string{strings.Repeat("a", 60) + "/1/1/m1 work", "\x01/1/1/m1 work", "é/1/1/m1 work", "1a messages", "work"} {
		if _, err := conn.Exec(t.Context(), "select pg_notify($1, $2)", sender.channel, hint); err != nil {
			t.Fatal(err)
		}
	}

	m.Loan++
	sender.Send(db.handle, m)
	if got := next(t, heard).Message; got == nil || got.Loan != m.Loan {
		t.Errorf("after what was forged came %+v", got)
	}
	db.Send(sender.handle, &store.Message{Kind: store.MessageLend, Worker: 1, Loan: 2, Count: 3})
	if got := next(t, back).Message; got == nil || got.From != db.handle || got.Count != 3 {
		t.Errorf("back came %+v", got)
	}
	if n := log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.b.String())
	}
}

// turned changes one character of a payload.
func turned(payload string) string {
	c := "A"
	if payload[40] == 'A' {
		c = "B"
	}
	return payload[:40] + c + payload[41:]
}

// hinted returns the hints of work that a handle hears, besides its messages.
func hinted(t *testing.T, db *DB) <-chan store.Hint {
	t.Helper()
	heard := make(chan store.Hint, 100) // more than a test sends
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() {
		_ = db.Listen(ctx, func(h store.Hint) {
			if h.Topic == store.TopicWork {
				heard <- h
			}
		})
	})
	t.Cleanup(func() { stop(); over.Wait() })
	eventually(t, "the handle hears hints", db.Hears)
	return heard
}

// TestMessagesSpoilNoHints: if the server refuses the messages, or their keys cannot be read, the
// hints are sent alone. Hints without a handle are heard by nobody.
func TestMessagesSpoilNoHints(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	sender := open(t, db.cfg.URL)
	heard := hinted(t, db)
	conn, err := sender.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(conn) })
	bad := strings.Repeat("a", 60) // its channel would have a name that is too long
	for _, from := range []string{bad, "\x01", "é", "A", ""} {
		execute(t, db, "select pg_notify($1, $2)", db.channel, from+"/1/1/m1 work")
	}
	for what, w := range map[string]*wire{
		"refused":     {db: sender, recipients: map[string]recipient{bad: {seal: sealOf(t, bad, make([]byte, keySize))}}},
		"without key": {db: sender, recipients: map[string]recipient{}},
	} {
		if err := w.post(t.Context(), conn, &mailing{letters: []letter{{to: bad}}, hints: []string{sender.handle + "/1/3 work"}}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if h := next(t, heard); h.Steps != 3 {
			t.Errorf("%s: heard %+v", what, h)
		}
	}
	execute(t, db, "alter table hold rename to away")
	sender.Send(db.handle, &store.Message{Kind: store.MessageEnd})
	sender.Wake(4, store.TopicWork)
	if h := next(t, heard); h.Steps != 4 {
		t.Errorf("without the keys: heard %+v", h)
	}
	execute(t, db, "alter table away rename to hold")
}

// TestWhoTakesMessagesHasAKey: no hint says that its sender takes messages before others can read the
// key of the sender.
func TestWhoTakesMessagesHasAKey(t *testing.T) {
	t.Parallel()
	url := pgtest.Copy(t, migrated)
	other := open(t, url)
	heard := hinted(t, other)
	db, log := logged(t, url)
	execute(t, other, "alter table hold rename to away")
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() { _ = db.Listen(ctx, func(store.Hint) {}) })
	defer over.Wait()
	defer stop()
	eventually(t, "the key could not be stored", func() bool { return log.count("hints from other processes stopped") > 0 })
	db.Ask(1)
	db.Wake(1, store.TopicWork)
	if h := next(t, heard); h.From != "" || db.Hears() {
		t.Errorf("without a key: %+v", h)
	}
	execute(t, other, "alter table away rename to hold")
	eventually(t, "the handle hears", db.Hears)
	if key := noteOf(t, other, db.handle); len(key) != keySize || bytes.Equal(key, make([]byte, keySize)) {
		t.Errorf("the key is %x", key)
	}
	db.Ask(1)
	db.Wake(1, store.TopicWork)
	if h := next(t, heard); h.From != db.handle {
		t.Errorf("with a key: %+v", h)
	}
}

// TestAKeyOutlivesItsConnections: when all connections of a receiver are cut, those who know its key
// and those who read it then reach it again. It is gone when the handle is closed.
func TestAKeyOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.Copy(t, migrated)
	db, _ := logged(t, url)
	old, late := open(t, url), open(t, url)
	heard := listening(t, db)
	message := &store.Message{Kind: store.MessageEnd, Worker: 1, Loan: 2, Count: 3}
	old.Send(db.handle, message)
	if next(t, heard).Message == nil {
		t.Fatal("a message is missing")
	}
	key := noteOf(t, old, db.handle)
	execute(t, old, "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = $1", db.application())
	if h := next(t, heard); h.Message != nil {
		t.Errorf("after the connection broke came %+v", h.Message)
	}
	eventually(t, "the name is held again", func() bool {
		var held bool
		err := old.pool.QueryRow(t.Context(), "select exists (select 1 from hold join pg_stat_activity using (pid) where hold.name = $1)", postboxName+db.handle).Scan(&held)
		return err == nil && held
	})
	if again := noteOf(t, old, db.handle); !bytes.Equal(again, key) {
		t.Error("it has another key")
	}
	for _, s := range []*DB{old, late} {
		s.Send(db.handle, message)
		if m := next(t, heard).Message; m == nil || m.From != s.handle {
			t.Errorf("came as %+v", m)
		}
	}
	db.Close()
	var left int
	if err := old.pool.QueryRow(t.Context(), "select count(*) from hold where starts_with(name, 'postbox/')").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d keys are left, %v", left, err)
	}
}

// TestTheKeyOfAKilledProcess is deleted by Maintain, once it is old, and no other is.
func TestTheKeyOfAKilledProcess(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("PAWL_LISTEN_UNTIL_KILLED"); url != "" {
		listenForever(url)
	}
	db := fresh(t)
	listening(t, db)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestTheKeyOfAKilledProcess$")
	cmd.Env = append(os.Environ(), "PAWL_LISTEN_UNTIL_KILLED="+db.cfg.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	handle, err := bufio.NewReader(out).ReadString('\n')
	handle = strings.TrimSpace(handle)
	if err != nil || !isHandle(handle) {
		t.Fatalf("the other process says %q, %v", handle, err)
	}
	keys := func() (n int) {
		if err := db.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.pool.QueryRow(t.Context(), "select count(*) from hold where starts_with(name, 'postbox/')").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	age := func() { execute(t, db, "update hold set at = at - $1::bigint", 2*postboxMemory.Microseconds()) }
	age()
	if n := keys(); n != 2 {
		t.Fatalf("%d keys, while both processes live", n)
	}
	execute(t, db, "update hold set at = "+clock)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await(t, db, "select not exists (with locked as ("+lockedKeys+") select 1 from locked where key = hashtextextended(current_schema() || '/postbox/' || $1::text, 7061776))", handle)
	if n := keys(); n != 2 {
		t.Errorf("%d keys; one that may be taken again was deleted", n)
	}
	age()
	if n := keys(); n != 1 {
		t.Errorf("%d keys are left, want that of the process that lives", n)
	}
	noteOf(t, db, db.handle)
}

func listenForever(url string) {
	db, err := Open(context.Background(), Config{URL: url})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() {
		for !db.Hears() {
			time.Sleep(time.Millisecond)
		}
		fmt.Println(db.handle)
	}()
	_ = db.Listen(context.Background(), func(store.Hint) {})
}

// TestAKeyThatIsTakenAgain: Maintain waits for the holder that writes its row, and leaves it.
func TestAKeyThatIsTakenAgain(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	execute(t, db, "insert into hold (name, note, pid, at) values ('postbox/1a', '', 1, 1), ('postbox/2b', '', 1, 1), ('worker/1', '', 1, 1)")
	tx, err := db.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "update hold set at = "+clock+" where name = 'postbox/1a'"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- db.Maintain(t.Context()) }()
	await(t, db, "select exists (select 1 from pg_locks where not granted and locktype = 'transactionid')")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := db.pool.QueryRow(t.Context(), "select array_agg(name order by name) from hold").Scan(&names); err != nil || strings.Join(names, " ") != "postbox/1a worker/1" {
		t.Errorf("left are %q, %v", names, err)
	}
}

// TestAKeyIsReadOnce: for each recipient, and for one without a key once a second; what is remembered
// is bounded.
func TestAKeyIsReadOnce(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	conn, err := db.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(conn) })
	w := &wire{db: db, recipients: map[string]recipient{}}
	sent := func(to string) int {
		t.Helper()
		channels, _, err := w.sealed(t.Context(), conn, []letter{{to: to}, {to: to}})
		if err != nil {
			t.Fatal(err)
		}
		return len(channels)
	}
	has := func(handle string) {
		execute(t, db, "insert into hold (name, note, pid, at) values ('postbox/' || $1::text, $2, 1, 1)", handle, make([]byte, keySize))
	}
	if n := sent("1a"); n != 0 {
		t.Errorf("%d messages to nobody", n)
	}
	has("1a")
	if n := sent("1a"); n != 0 {
		t.Error("asked again at once")
	}
	w.recipients["1a"] = recipient{asked: time.Now().Add(-askAgain)}
	if n := sent("1a"); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
	execute(t, db, "delete from hold")
	if n := sent("1a"); n != 2 {
		t.Errorf("%d messages, though the key was known", n)
	}
	execute(t, db, "insert into hold (name, note, pid, at) values ('postbox/short', 'abc', 1, 1)")
	has("2b")
	if channels, _, err := w.sealed(t.Context(), conn, []letter{{to: "short"}, {to: "2b"}}); err != nil || len(channels) != 1 {
		t.Errorf("beside a key that is none: %q, %v", channels, err)
	}
	for i := range 2 * maxSeals {
		sent(fmt.Sprint(i))
	}
	if len(w.recipients) > maxSeals {
		t.Errorf("%d recipients are remembered", len(w.recipients))
	}
}

// TestMessagesThatWaitAreBounded: while nothing can be sent, the newest messages are kept.
func TestMessagesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	db := &DB{handle: "1b", wire: &wire{bell: make(chan struct{}, 1)}}
	db.wire.db = db
	for i := range maxWaiting + 10 {
		db.Send("1a", &store.Message{Kind: store.MessageEnd, Count: i})
		db.Send("\xff", &store.Message{Kind: store.MessageEnd})
	}
	w := db.wire.letters
	first, _, _, err := readMessage(w[0].body)
	last, _, _, fault := readMessage(w[len(w)-1].body)
	if err != nil || fault != nil || len(w) != maxWaiting || first.Count != 10 || last.Count != maxWaiting+9 {
		t.Errorf("%d wait, from %+v to %+v", len(w), first, last)
	}
}

// written returns a message as it is sealed, with a number that none has had.
func written(db *DB, m *store.Message) []byte {
	db.wire.mu.Lock()
	defer db.wire.mu.Unlock()
	db.wire.sent += 1 << 20
	return db.wire.write("1a", m)[0].body
}

// TestALongLetterFits: the server takes a payload as long as a letter may be.
func TestALongLetterFits(t *testing.T) {
	t.Parallel()
	s, err := newSeal("1a", make([]byte, keySize))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.close(make([]byte, maxLetter))); n >= 8000 || n < 7990 {
		t.Errorf("a payload has %d bytes, and 7999 are possible", n)
	}
}

// TestKeysAreReadByName: whatever is held beside them.
func TestKeysAreReadByName(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	execute(t, db, "insert into hold (name, note, pid, at) select 'worker/' || g, '', 1, 1 from generate_series(1, 1000) g")
	execute(t, db, "analyze")
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	want := `using hold_pkey on hold\b.*\n\s+Index Cond: \(name = ANY`
	if plan := explain(t, conn, &statement{"read_seals", readSeals}); !regexp.MustCompile(want).MatchString(plan) {
		t.Errorf("the plan:\n%s", plan)
	}
}

// BenchmarkSeal seals and opens a message with a job or two.
//
//	go test -run xxx -bench Seal ./internal/store/postgres
func BenchmarkSeal(b *testing.B) {
	s, err := newSeal("1a2b", make([]byte, keySize))
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 400)
	b.Run("close", func(b *testing.B) {
		for b.Loop() {
			s.close(body)
		}
	})
	payload := s.close(body)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.open(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
