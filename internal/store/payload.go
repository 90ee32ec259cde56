package store

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Payload is the stored bodies of a record, and the sequence of the record's last entry.
type Payload struct {
	Seq    int64
	Bodies map[string][]byte // by field; nil means empty
	Owed   *pawl.Owed
}

// Size returns the total length of the bodies.
func (p *Payload) Size() (n int) {
	for _, b := range p.Bodies {
		n += len(b)
	}
	return n
}

// PayloadPageBytes bounds the payload that Views.Payloads and Views.SignalData return at
// once. A record has up to some MiB.
const PayloadPageBytes = 4 << 20

// PayloadColumns returns the columns that hold the payload of a kind of record, its bodies.
func PayloadColumns(kind string) []string {
	switch kind {
	case lifecycle.Job.Name:
		return bodiesOf(Jobs)
	case lifecycle.Step.Name:
		return bodiesOf(Steps)
	case lifecycle.Schedule.Name:
		return bodiesOf(Schedules)
	}
	return nil
}

func bodiesOf[R any](t *Table[R]) (names []string) {
	for _, c := range t.Of(Body) {
		names = append(names, c.Name)
	}
	return names
}
