package crew

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// An Inbox is what a reader has not acknowledged. It is read again until Ack.
type Inbox struct {
	Messages []Message
	Damage   []Damage // between them

	reader      string
	begun, read map[string]int64 // places before and behind what was read, by sender
}

// maxInbox is how many messages of each sender an Inbox has at most.
const maxInbox = 1000

func (f *Folder) cursor(reader string) string {
	return filepath.Join(f.Dir, messagesDir, reader+".cursor")
}

// Inbox returns the messages to a reader, a member or Orchestrator, that follow those that it has
// acknowledged: those of a sender in their order.
func (f *Folder) Inbox(reader string) (*Inbox, error) {
	if err := checkParty("reader", reader, Orchestrator); err != nil {
		return nil, err
	}
	return f.inbox(reader, reader)
}

// inbox returns the messages to a party that a reader has not acknowledged.
func (f *Folder) inbox(reader, party string) (*Inbox, error) {
	places, err := f.places(reader)
	if err != nil {
		return nil, err
	}
	senders, err := f.senders()
	if err != nil {
		return nil, err
	}
	in := &Inbox{reader: reader, begun: places, read: map[string]int64{}}
	for _, sender := range senders {
		list, next, damaged, err := f.messagesFrom(sender, places[sender], maxInbox)
		if err != nil {
			return nil, err
		}
		in.read[sender], in.Damage = next, append(in.Damage, damaged...)
		for _, m := range list {
			if m.To == party || m.To == Everybody && party != Orchestrator {
				in.Messages = append(in.Messages, m)
			}
		}
	}
	return in, nil
}

func (f *Folder) places(reader string) (places map[string]int64, err error) {
	b, err := readFile(f.cursor(reader), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]int64{}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &places); err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: f.cursor(reader) + " is not JSON", Hint: "remove it to read all messages again", Err: err}
	}
	return places, nil
}

// Ack acknowledges all that an Inbox has: it is not read again. Of two that acknowledge at once,
// the one that has read further counts.
func (f *Folder) Ack(ctx context.Context, in *Inbox) error {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := durable.Acquire(ctx, f.cursor(in.reader)+".lock")
	if err != nil {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the inbox of " + in.reader + " is being read by another process", Err: err}
	}
	defer lock.Release()
	places, err := f.places(in.reader)
	if err != nil {
		return err
	}
	for sender, at := range in.read {
		if places[sender] == in.begun[sender] || places[sender] < at {
			places[sender] = at
		}
	}
	b, err := json.Marshal(places)
	if err != nil {
		return err
	}
	return f.Disk.Publish(f.cursor(in.reader), append(b, '\n'))
}
