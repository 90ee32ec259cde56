package postgres

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trouble"
)

// Every role that can connect to the database can listen to any channel, and send there. So a
// message is sealed with AES-256-GCM under a key of its receiver, which is the note of a name that
// the receiver holds: who may not read Pawl's tables can neither read a message nor make one.

const (
	postboxName = "postbox/" // in front of the handle: the name whose note is the key
	keySize     = 32         // of AES-256

	// sealVersion is part of what a seal covers, as the receiver is: a message of another format,
	// or for another handle, cannot be opened.
	sealVersion = "pawl message 1 to "
)

// postbox returns the channel of the messages to a handle.
func postbox(handle string) string { return "pawl_to_" + handle }

var handleForm = regexp.MustCompile(`^[0-9a-z]{1,13}$`)

// isHandle reports whether text has the form of a handle: an uint64 in base 36.
func isHandle(text string) bool { return handleForm.MatchString(text) }

// A seal is the key of one receiver. Nonces are random: two of a key's first 2^32 messages have the
// same one with a probability of about 2^-33.
type seal struct {
	aead cipher.AEAD
	data []byte
}

func newSeal(handle string, key []byte) (*seal, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("the key of %s has %d bytes, want %d", handle, len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &seal{aead, []byte(sealVersion + handle)}, err
}

// close returns a message as it is sent.
func (s *seal) close(message []byte) string {
	return base64.RawStdEncoding.EncodeToString(s.aead.Seal(nil, nil, message, s.data))
}

func (s *seal) open(payload string) ([]byte, error) {
	sealed, err := base64.RawStdEncoding.DecodeString(payload)
	if err != nil {
		return nil, err
	}
	return s.aead.Open(nil, nil, sealed, s.data)
}

// An ownKey is the key under which others seal what they send to this handle.
type ownKey struct {
	mu   sync.Mutex
	seal *seal // nil until the key is stored
}

// openPostbox stores the key of the handle, once, where others read it. It is held until the handle
// is closed, whatever becomes of the connection that listens.
func (db *DB) openPostbox(ctx context.Context) (*seal, error) {
	db.key.mu.Lock()
	defer db.key.mu.Unlock()
	if db.key.seal != nil {
		return db.key.seal, nil
	}
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	s, err := newSeal(db.handle, key)
	if err != nil {
		return nil, err
	}
	if _, err := db.Hold(ctx, postboxName+db.handle, key); err != nil {
		return nil, err
	}
	db.key.seal = s
	return s, nil
}

// postboxMemory is how long the key of a process that was killed is kept at least. A session that
// broke takes its names again within seconds.
const postboxMemory = time.Minute

// forgetPostboxes deletes the keys of processes that were killed. A holder that takes its name again
// meanwhile keeps it: the row is then no longer an old one, and the server checks that again once it
// has the row.
const forgetPostboxes = "with locked as materialized (" + lockedKeys + `)
delete from hold h where starts_with(h.name, '` + postboxName + "') and h.at <= " + clock + ` - $1::bigint
  and not exists (select 1 from locked where key = hashtextextended(current_schema() || '/' || h.name, 7061776))`

// readSeals reads the keys of handles.
const readSeals = "select name, note from hold where name = any($1::text[])"

const (
	// maxSeals bounds the keys that a wire remembers. When there are more, it forgets all.
	maxSeals = 1000

	// askAgain is the least time between two looks for the key of one handle.
	askAgain = time.Second
)

// A recipient is what a wire knows of a handle. Its key never changes.
type recipient struct {
	seal  *seal // nil: it had none
	asked time.Time
}

// acquaint reads the keys of the recipients of these letters, if they are not known.
func (w *wire) acquaint(ctx context.Context, conn *pgx.Conn, letters []letter) error {
	now := time.Now()
	if len(w.recipients) >= maxSeals {
		clear(w.recipients)
	}
	var names []string
	for _, l := range letters {
		if r, known := w.recipients[l.to]; !known || r.seal == nil && now.Sub(r.asked) >= askAgain {
			names = append(names, postboxName+l.to)
		}
	}
	if len(names) == 0 {
		return nil
	}
	rows, err := conn.Query(ctx, readSeals, names)
	if err != nil {
		return err
	}
	var name string
	var key []byte
	_, err = pgx.ForEachRow(rows, []any{&name, &key}, func() error {
		handle := name[len(postboxName):]
		s, err := newSeal(handle, key)
		if err != nil {
			w.db.log.Warn("a process gets no messages", "error", err)
			return nil
		}
		w.recipients[handle] = recipient{seal: s}
		return nil
	})
	for _, name := range names {
		if handle := name[len(postboxName):]; err == nil && w.recipients[handle].seal == nil {
			w.recipients[handle] = recipient{asked: now}
		}
	}
	return err
}

// sealed returns the channels and the payloads of letters. One whose recipient has no key is dropped:
// it has ended, or never was.
func (w *wire) sealed(ctx context.Context, conn *pgx.Conn, letters []letter) (channels, payloads []string, err error) {
	if err := w.acquaint(ctx, conn, letters); err != nil {
		return nil, nil, err
	}
	for _, l := range letters {
		if s := w.recipients[l.to].seal; s != nil {
			channels, payloads = append(channels, postbox(l.to)), append(payloads, s.close(l.body))
		}
	}
	return channels, payloads, nil
}

// An inbox opens what comes to this handle. Only one goroutine uses it.
type inbox struct {
	seal *seal
	last map[string]uint64 // by sender: the number of its last message
	log  *trouble.Log
}

// maxSenders bounds the senders that an inbox remembers. When there are more, it forgets all.
const maxSenders = 10_000

func newInbox(log *slog.Logger) *inbox {
	// Success is never noted: whoever forges messages among true ones must not fill the log.
	return &inbox{last: map[string]uint64{}, log: trouble.New(log, "a message that cannot be opened is ignored; another program may send on channels of Pawl", "")}
}

// errReplayed may be of a wire that did not see that the server had taken what it sent.
var errReplayed = errors.New("the message has come before")

// receive returns what a payload says, unless it is forged, came before, or cannot be read. What was
// taken is then known to the caches.
func (in *inbox) receive(db *DB, payload string) (*store.Message, bool) {
	m, taken, err := in.read(payload)
	if err != nil && !errors.Is(err, errReplayed) {
		in.log.Note(err)
	}
	if err == nil {
		db.adopt(taken)
	}
	return m, err == nil
}

func (in *inbox) read(payload string) (*store.Message, []*handing, error) {
	body, err := in.seal.open(payload)
	if err != nil {
		return nil, nil, err
	}
	m, number, taken, err := readMessage(body)
	if err != nil {
		return nil, nil, err
	}
	last, known := in.last[m.From]
	if known && number <= last {
		return nil, nil, errReplayed
	}
	if !known && len(in.last) >= maxSenders {
		clear(in.last)
	}
	in.last[m.From] = number
	return m, taken, nil
}
