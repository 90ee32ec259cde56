package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// payloads are the statements that read the payload sealed by the trail of a record.
var payloads = map[string]statement{
	lifecycle.Job.Name: selectJobPayload, lifecycle.Step.Name: selectStepPayload, lifecycle.Schedule.Name: selectSchedulePayload,
}

// Payloads reads the payload sealed by the trails of records; see store.Views.
func (db *DB) Payloads(ctx context.Context, kind string, keys []pawl.StepKey) (found map[pawl.StepKey]store.Payload, through int, err error) {
	found = make(map[pawl.StepKey]store.Payload, len(keys))
	err = db.read(ctx, "read payload", func(c *conn) error {
		bytes := 0
		for _, k := range keys {
			if bytes >= store.PayloadPageBytes {
				break
			}
			through++
			err := c.each(payloads[kind], func(b *row) {
				if b.int(int64(k.Job)); kind == lifecycle.Step.Name {
					b.int(int64(k.Ord))
				}
			}, func(cols *columns) error {
				p := store.Payload{Seq: cols.int(), Bodies: map[string][]byte{}}
				tree, err := store.DecodeTree(cols.blob())
				if err != nil {
					return err
				}
				if tree != nil {
					p.Owed = tree.Owed
				}
				for _, name := range store.PayloadColumns(kind) {
					p.Bodies[name] = cols.body()
				}
				found[k] = p
				bytes += p.Size()
				return cols.finish()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, through, err
}

// Refused counts refused facts; see store.Views.
func (db *DB) Refused(ctx context.Context, job rowkey.Job) (n int64, err error) {
	err = db.read(ctx, "count refused facts", func(c *conn) error {
		return c.each(countRefusals, func(b *row) { b.int(int64(job)) }, func(cols *columns) error {
			n = cols.int()
			return nil
		})
	})
	return n, err
}

// SignalData reads the data of signals of a job; see store.Views.
func (db *DB) SignalData(ctx context.Context, job rowkey.Job, after int64) (data map[int64][]byte, more bool, err error) {
	data = make(map[int64][]byte)
	err = db.read(ctx, "read the data of signals", func(c *conn) error {
		bytes := 0
		return c.each(selectSignalData, func(b *row) {
			b.int(int64(job))
			b.int(after)
		}, func(cols *columns) error {
			if more = bytes >= store.PayloadPageBytes; more {
				return nil
			}
			seq, body := cols.int(), cols.body()
			data[seq] = body
			bytes += len(body)
			return cols.finish()
		})
	})
	return data, more, err
}
