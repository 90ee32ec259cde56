package sqlite

import (
	"context"
	"errors"
	"sync"
)

// maxReaders is how many views read at once; others wait.
const maxReaders = 4

// readers is a pool of connections that read.
type readers struct {
	path, synchronous string
	places            chan struct{}

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

func newReaders(path, synchronous string) *readers {
	return &readers{path: path, synchronous: synchronous, places: make(chan struct{}, maxReaders)}
}

func (r *readers) take(ctx context.Context) (*conn, error) {
	if err := acquire(ctx, r.places); err != nil {
		return nil, err
	}
	c, err := r.reuse()
	if c == nil && err == nil {
		c, err = connect(ctx, r.path, r.synchronous, readerKiB)
	}
	if err != nil {
		<-r.places
		return nil, err
	}
	return c, nil
}

func (r *readers) reuse() (*conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	n := len(r.idle)
	if n == 0 {
		return nil, nil
	}
	c := r.idle[n-1]
	r.idle = r.idle[:n-1]
	return c, nil
}

func (r *readers) put(c *conn) {
	r.mu.Lock()
	r.idle = append(r.idle, c)
	r.mu.Unlock()
	<-r.places
}

// close waits for the views in progress.
func (r *readers) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for range maxReaders {
		r.places <- struct{}{}
	}
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.close())
	}
	r.idle = nil
	for range maxReaders {
		<-r.places
	}
	return errors.Join(errs...)
}

// read runs f on a connection, in one snapshot. ctx bounds its time.
func (db *DB) read(ctx context.Context, what string, f func(*conn) error) error {
	if db.readers == nil {
		return translate(what, db.readShared(ctx, f))
	}
	c, err := db.readers.take(ctx)
	if err != nil {
		return err
	}
	defer db.readers.put(c)
	err = patiently(ctx, func() error { return snapshot(ctx, c, f) })
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return translate(what, err)
}

// snapshot runs f in a read transaction, interrupted when ctx ends.
func snapshot(ctx context.Context, c *conn, f func(*conn) error) error {
	if err := c.run(beginRead, nil); err != nil {
		return err
	}
	c.SetInterrupt(ctx.Done())
	err := f(c)
	c.SetInterrupt(nil)
	return errors.Join(err, c.run(commit, nil))
}

// readShared reads through the writer's connection, between its transactions or while decide
// runs in one of them.
func (db *DB) readShared(ctx context.Context, f func(*conn) error) error {
	w := db.writer
	if err := acquire(ctx, w.use); err != nil {
		return err
	}
	defer func() { <-w.use }()
	if w.conn == nil {
		return errClosed
	}
	return f(w.conn)
}
