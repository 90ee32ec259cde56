package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A besideFunc begins something that disturbs a measurement; see bench.Deployment.
type besideFunc = func(context.Context) (stop func() error, err error)

// openSnapshot leaves a transaction of somebody else open, so that no vacuum and no pruning
// removes what the jobs leave behind.
func openSnapshot(url string) besideFunc {
	return func(ctx context.Context) (func() error, error) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Exec(ctx, "begin isolation level repeatable read; select txid_current()"); err != nil {
			conn.Close(ctx)
			return nil, err
		}
		return func() error { return conn.Close(context.WithoutCancel(ctx)) }, nil
	}
}

// checkpointPause is between two checkpoints.
const checkpointPause = 500 * time.Millisecond

// checkpointing makes the server write all that changed to the disk, at once, again and again.
func checkpointing(url string) besideFunc {
	return func(ctx context.Context) (func() error, error) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := conn.Exec(context.WithoutCancel(ctx), "checkpoint"); err != nil {
					ended <- err
					return
				}
				select {
				case <-time.After(checkpointPause):
				case <-ctx.Done():
					ended <- nil
					return
				}
			}
		}()
		return func() error {
			cancel()
			err := <-ended
			conn.Close(context.WithoutCancel(ctx))
			return err
		}, nil
	}
}

// logSegments is how many segments of the log are there for the next writes: more than a rate of
// 5000 jobs/s writes in five seconds, 16 MiB each.
const logSegments = 12

// recycleLog makes the server keep segments of its log for further use, as one does that has run for
// a while. A new server makes a new file of 16 MiB whenever one is full, and all commits wait for it,
// which decides the highest percentiles of a few seconds. A user who may not do that measures all systems
// without it, and is told so once.
func recycleLog(ctx context.Context, url string) error {
	err := switchLog(ctx, url)
	var denied *pgconn.PgError
	if !errors.As(err, &denied) || denied.Code != insufficientPrivilege {
		return err
	}
	sayUnrecycled.Do(func() {
		fmt.Fprintf(os.Stderr, "the server does not keep segments of its log, so the highest percentiles may be those of new segments: %v\n", err)
	})
	return nil
}

const insufficientPrivilege = "42501" // SQLSTATE

var sayUnrecycled sync.Once

// switchLog begins segment after segment, and has the server take them for later use.
func switchLog(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for range logSegments {
		// A segment with nothing in it is not left.
		if _, err := conn.Exec(ctx, "select pg_logical_emit_message(false, 'peers', '')"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "select pg_switch_wal()"); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "checkpoint")
	return err
}
