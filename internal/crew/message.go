package crew

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// Orchestrator is the sender of what is not from a member, and the recipient of what is for none.
const Orchestrator = "orchestrator"

// Everybody is the recipient of a message of the orchestrator to all members.
const Everybody = "*"

// A Message is a line in the file of its sender (C6).
type Message struct {
	TS       string `json:"ts"` // RFC 3339
	From     string `json:"from"`
	To       string `json:"to,omitempty"` // a member, Orchestrator or Everybody
	Type     string `json:"type"`
	Task     string `json:"task,omitempty"`
	Epoch    int64  `json:"epoch,omitempty"` // of the assignment that it is about: it has no effect on another
	Sequence int64  `json:"seq,omitempty"`   // 1 for the first line of a sender, then one more each; 0 in a line that another program wrote without
	Body     string `json:"body,omitempty"`
}

const (
	maxBody = 64 << 10 // bytes of a message
	maxLine = 1 << 20  // bytes of a line; a longer one is damage
)

// A Damage is a complete line that is no message, or not the one that was sent.
type Damage struct {
	File string `json:"file"`
	At   int64  `json:"at"` // byte of the file
	Why  string `json:"why"`
}

func (d *Damage) Error() string { return fmt.Sprintf("%s, at byte %d: %s", d.File, d.At, d.Why) }

func (f *Folder) messages(sender string) string {
	return filepath.Join(f.Dir, messagesDir, sender+".jsonl")
}

func checkParty(field, name string, others ...string) error {
	if slices.Contains(others, name) || CheckID(name) == nil {
		return nil
	}
	return pawl.Errorf(pawl.Invalid, "%s is %q; allowed: a member, %s", field, clip(name), strings.Join(others, ", "))
}

func (m *Message) check() error {
	if err := errors.Join(checkParty("from", m.From, Orchestrator), checkParty("to", m.To, Orchestrator, Everybody)); err != nil {
		return err
	}
	switch bad := checkID("type of message", m.Type, typePattern, "lower-case letters, digits, '_' and '-', beginning with a letter"); {
	case bad != nil:
		return bad
	case m.To == Everybody && m.From != Orchestrator:
		return pawl.Errorf(pawl.Invalid, "to is %q; allowed of a member: a member, %s", Everybody, Orchestrator)
	case len(m.Body) > maxBody || !utf8.ValidString(m.Body):
		return pawl.Errorf(pawl.Invalid, "the body of the message has %d bytes; allowed: at most %d bytes of UTF-8; send the name of a file instead", len(m.Body), maxBody)
	case m.Task != "":
		return CheckTask(m.Task)
	}
	return nil
}

// Send appends a message to the file of its sender, and sets its time and sequence. It is on the
// disk when Send returns.
func (f *Folder) Send(ctx context.Context, m *Message) error {
	if err := m.check(); err != nil {
		return err
	}
	path := f.messages(m.From)
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := durable.Acquire(ctx, filepath.Join(f.Dir, messagesDir, m.From+".lock"))
	if err != nil {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the messages of " + m.From + " are being written by another process", Err: err}
	}
	defer lock.Release()
	if _, err := f.Disk.Mend(path); err != nil {
		return err
	}
	last, err := lastSequence(path)
	if err != nil {
		return err
	}
	m.Sequence, m.TS = last+1, f.Now().UTC().Format(time.RFC3339Nano)
	line, err := m.line()
	if err != nil {
		return err
	}
	_, err = f.Disk.Append(path, line)
	return err
}

// crcKey is what precedes the checksum in a line. The checksum is POSIX cksum's, of all bytes
// before crcKey.
const crcKey = `,"crc":`

// line returns the message as a line.
func (m *Message) line() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	sum := cksum(text)
	return append(strconv.AppendUint(append(text, crcKey...), uint64(sum), 10), "}\n"...), nil
}

// parseLine returns the message of a line. One without sequence and checksum is of another
// program (its Sequence is 0).
func parseLine(line []byte) (*Message, error) {
	m := new(struct {
		Message
		CRC *uint32 `json:"crc"`
	})
	if err := json.Unmarshal(line, m); err != nil {
		return nil, err
	}
	switch at := bytes.LastIndex(line, []byte(crcKey)); {
	case m.CRC == nil && m.Sequence == 0:
	case m.CRC == nil:
		return nil, errors.New("it has a seq and no crc")
	case m.Sequence < 1:
		return nil, errors.New("it has a crc and no seq")
	case at < 0 || cksum(line[:at]) != *m.CRC:
		return nil, errors.New("its crc does not match")
	}
	if m.From == "" || m.Type == "" {
		return nil, errors.New("it has no from or no type")
	}
	return &m.Message, nil
}

// lastSequence returns the sequence of the last message that has one, 0 if none has.
func lastSequence(path string) (last int64, err error) {
	line, _, err := durable.LastLine(path)
	if err != nil || len(line) == 0 {
		return 0, err
	}
	if m, err := parseLine(line); err == nil && m.Sequence > 0 {
		return m.Sequence, nil
	}
	_, err = scan(path, 0, func(_ int64, line []byte) bool {
		if m, err := parseLine(line); err == nil {
			last = max(last, m.Sequence)
		}
		return true
	})
	return last, err
}

// scan calls each for the complete lines of a file from a place on, until it returns false. It
// returns the place behind the last of them. A line that is longer than maxLine is cut there.
func scan(path string, at int64, each func(at int64, line []byte) bool) (int64, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	defer file.Close()
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return at, err
	}
	r := bufio.NewReader(file)
	for {
		line, size, err := readLine(r)
		if err == io.EOF { // an incomplete line is not there yet
			return at, nil
		}
		if err != nil {
			return at, err
		}
		more := each(at, line)
		if at += size; !more {
			return at, nil
		}
	}
}

// readLine reads a line with its line feed, and keeps at most a little more than maxLine of it.
func readLine(r *bufio.Reader) (line []byte, size int64, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		size += int64(len(piece))
		if len(line) <= maxLine {
			line = append(line, piece...)
		}
		if err != bufio.ErrBufferFull {
			return line, size, err
		}
	}
}

// messagesFrom returns the messages of a sender from a place on, at most limit, the place behind them, and
// the damage between them.
func (f *Folder) messagesFrom(sender string, at int64, limit int) (list []Message, next int64, damaged []Damage, err error) {
	path := f.messages(sender)
	if info, err := os.Stat(path); err == nil && info.Size() < at {
		damaged, at = append(damaged, Damage{path, info.Size(), fmt.Sprintf("it is shorter than the %d bytes that were read; it is read again from its beginning", at)}), 0
	}
	next, err = scan(path, at, func(at int64, line []byte) bool {
		m, err := parseLine(line)
		if err == nil && m.From != sender {
			err = fmt.Errorf("it is from %s", clip(m.From))
		}
		if err != nil {
			damaged = append(damaged, Damage{path, at, err.Error()})
			return true
		}
		if m.To == "" { // by another program
			if m.To = Orchestrator; sender == Orchestrator {
				m.To = Everybody
			}
		}
		list = append(list, *m)
		return len(list) < limit
	})
	return list, next, damaged, err
}

// senders returns whose messages there are, in their order.
func (f *Folder) senders() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(f.Dir, messagesDir))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok && checkParty("", name, Orchestrator) == nil {
			names = append(names, name)
		}
	}
	return names, err
}
