package pawl

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/rowkey"
)

// An ID is a UUIDv7, time-ordered, shown in hex behind a prefix (J5): j_ for
// jobs, w_ for workers, st_ for steps.
//
// It contains the integer key of the record in stores: the second in which it was made
// and a counter of 32 bits. So a public id leads to its row, and to the day on which it
// was made, without an index.
type ID [16]byte

// Prefixes of public ids.
const (
	JobPrefix    = "j_"
	WorkerPrefix = "w_"
	StepPrefix   = "st_"

	ReservationPrefix = "r_"
)

// keyEpoch is 2024-01-01T00:00:00Z in Unix seconds. Keys last until 2092.
const keyEpoch = 1704067200

// MakeID returns the id made at the time at from a counter and 42 bits of entropy (the
// rest of entropy is not used). The counter distinguishes ids of one second.
func MakeID(at time.Time, counter uint32, entropy uint64) ID {
	return assemble(uint64(at.UnixMilli()), uint16(entropy>>30)&0xfff, counter, uint32(entropy)&(1<<30-1))
}

// assemble lays a UUIDv7 out: 48 bits of milliseconds, version, 12 bits,
// variant, the counter, and 30 bits at the end.
func assemble(ms uint64, a uint16, counter, low uint32) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], ms<<16|0x7000|uint64(a))
	binary.BigEndian.PutUint64(id[8:], 1<<63|uint64(counter)<<30|uint64(low))
	return id
}

// JobKey returns the key of the job that id names.
func (id ID) JobKey() rowkey.Job { return rowkey.Job(id.key()) }

// WorkerKey returns the key of the worker that id names.
func (id ID) WorkerKey() rowkey.Worker { return rowkey.Worker(id.key()) }

// ScheduleKey returns the key of the schedule that id names.
func (id ID) ScheduleKey() rowkey.Schedule { return rowkey.Schedule(id.key()) }

// TokenKey returns the key of the token that id names.
func (id ID) TokenKey() rowkey.Token { return rowkey.Token(id.key()) }

// QueuePauseKey returns the key of the pause of a queue that id names.
func (id ID) QueuePauseKey() rowkey.QueuePause { return rowkey.QueuePause(id.key()) }

// WebhookKey returns the key of the webhook that id names.
func (id ID) WebhookKey() rowkey.Webhook { return rowkey.Webhook(id.key()) }

func (id ID) key() int64 { return (int64(id.millis()/1000)-keyEpoch)<<32 | int64(id.counter()) }

// Time returns when the id was made, in milliseconds.
func (id ID) Time() time.Time { return time.UnixMilli(int64(id.millis())).UTC() }

// KeyAt returns the smallest key of an id made at or after the second of t.
func KeyAt(t time.Time) int64 { return (t.Unix() - keyEpoch) << 32 }

// KeyTime returns the second in which the id of that key was made.
func KeyTime(key int64) time.Time { return time.Unix(key>>32+keyEpoch, 0).UTC() }

func (id ID) millis() uint64  { return binary.BigEndian.Uint64(id[:8]) >> 16 }
func (id ID) counter() uint32 { return uint32(binary.BigEndian.Uint64(id[8:]) >> 30) }
func (id ID) low() uint32     { return uint32(binary.BigEndian.Uint64(id[8:])) & (1<<30 - 1) }

// Step returns the id of the step at ord in the job that id names: the job's
// id with ord in the place of its last 30 bits.
func (id ID) Step(ord Ord) ID {
	a := binary.BigEndian.Uint16(id[6:8]) & 0xfff
	return assemble(id.millis(), a, id.counter(), uint32(ord))
}

// StepKey returns the key of the step that id names.
func (id ID) StepKey() StepKey { return StepKey{Job: id.JobKey(), Ord: Ord(id.low())} }

// Public returns the id with the prefix of the kind that it names.
func (id ID) Public(prefix string) string {
	b := append(make([]byte, 0, 40), prefix...) // stays on the stack
	return string(hex.AppendEncode(b, id[:]))
}

// ParseID reads a public id with the given prefix. The error is of kind Invalid and
// names what is allowed.
func ParseID(prefix, s string) (ID, error) {
	var id ID
	if len(s) != len(prefix)+32 || s[:len(prefix)] != prefix {
		return id, badID(prefix, s)
	}
	if _, err := hex.Decode(id[:], []byte(s[len(prefix):])); err != nil {
		return id, badID(prefix, s)
	}
	if id[6]>>4 != 7 || id[8]>>6 != 2 {
		return id, badID(prefix, s)
	}
	return id, nil
}

func badID(prefix, s string) error {
	return Errorf(Invalid, "id %q: want %s and 32 hexadecimal digits of a UUIDv7", s, prefix)
}

// An Ord is the place of a step in its job: the node of the definition, from 1,
// and the index of the instance, from 1, where the node is fanned out (0 is the
// node itself).
type Ord int64

// Limits of an Ord.
const (
	MaxNodes     = 1000
	MaxInstances = 1<<20 - 1
)

// MakeOrd returns the place of an instance of a node, or of the node itself
// when instance is 0. Node and instance count from 1.
func MakeOrd(node, instance int) Ord { return Ord(node<<20 | instance) }

// Node returns the node of the definition, from 1.
func (o Ord) Node() int { return int(o >> 20) }

// Instance returns the instance of a fanned-out node, from 1; 0 for the node.
func (o Ord) Instance() int { return int(o & MaxInstances) }

// Parent returns the place of the node that an instance belongs to.
func (o Ord) Parent() Ord { return o &^ MaxInstances }

// A StepKey is the key of a step in stores. Ord 0 means the job itself where both share
// a table, as in the audit trail.
type StepKey struct {
	Job rowkey.Job
	Ord Ord
}

// Compare orders keys by job, and those of a job by ord.
func (k StepKey) Compare(o StepKey) int {
	if k.Job != o.Job {
		return cmp.Compare(k.Job, o.Job)
	}
	return cmp.Compare(k.Ord, o.Ord)
}

func (k StepKey) String() string {
	return fmt.Sprintf("%d/%d.%d", k.Job, k.Ord.Node(), k.Ord.Instance())
}
