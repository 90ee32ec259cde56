//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/s3"
	"github.com/pawl-dev/pawl/internal/sleep"
)

const (
	deleters     = 16 // requests at the same time
	cleanTries   = 6
	cleanFor     = 10 * time.Second      // after which a request is not tried again
	firstPause   = 50 * time.Millisecond // doubled each time
	maxAbandoned = 1 << 20               // uploads that are looked for
	maxUnreached = deleters              // objects for which the store was out of reach, until it is given up
)

// An objectCleaner deletes objects from several goroutines. Uploads that were not completed have no name in the
// manifest that could be deleted, so they are listed first; those of objects that the manifest names are aborted.
type objectCleaner struct {
	*layout
	ctx     context.Context
	giveUp  context.CancelCauseFunc // of ctx
	client  *s3.Client
	uploads map[string][]string // ids, by name
	names   chan string
	seen    atomic.Uint64 // objects, there or not, and pages of lists

	mu        sync.Mutex
	report    *loadpb.CleanupReport
	unreached int
}

var errUnreached = errors.New("the object store is out of reach; what is left is tried again when the agent starts")

// cleanObjects is Clean for an object store.
func cleanObjects(ctx context.Context, job Job, progress func(*loadpb.Progress)) (*loadpb.CleanupReport, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	c := &objectCleaner{ctx: ctx, giveUp: giveUp, report: &loadpb.CleanupReport{}, uploads: map[string][]string{}, names: make(chan string, 1024)}
	var err error
	if c.layout, err = cleaningLayout(job); err != nil {
		return c.report, err
	}
	c.client = c.store.Client()
	defer c.client.Close()
	stop := each(time.Second, func() { progress(&loadpb.Progress{Phase: "cleanup", Done: c.seen.Load()}) })
	defer stop()
	var workers sync.WaitGroup
	for range deleters {
		workers.Go(c.work)
	}
	_, err = readManifest(job.Manifest, c.begin, c.line)
	close(c.names)
	workers.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return c.report, err
}

// cleaningLayout returns the layout of a job, whose store is not waited for as long as the job may say.
func cleaningLayout(job Job) (*layout, error) {
	l, err := newLayout(job)
	if err == nil {
		l.store = l.store.Within(promptly) // try does what its retries would
	}
	return l, err
}

// begin is called with the head of the manifest.
func (c *objectCleaner) begin(h manifestHead) error {
	if h.RunID != c.job.RunID || h.Root != c.job.Root || h.Target != c.target {
		return fmt.Errorf("the manifest %s is of the run %s in %s, not of %s in %s", c.job.Manifest, h.RunID, h.Root, c.job.RunID, c.job.Root)
	}
	if !c.inParts() {
		return nil
	}
	err := c.findUploads()
	if err == nil || unreached(err) {
		return err
	}
	c.left(err) // the objects can be deleted nevertheless
	return nil
}

// unreached reports whether an error means that the store is out of reach.
func unreached(err error) bool {
	kind := s3.KindOf(err)
	return kind == s3.Connection || kind == s3.TimedOut
}

// inParts reports whether there are objects that are uploaded in parts. Where there are none, a store need not know
// what that is.
func (l *layout) inParts() bool {
	for _, s := range l.sets {
		if max(s.sizes.most, s.created.most) > l.store.PartSize {
			return true
		}
	}
	return false
}

// findUploads finds what was begun and neither completed nor aborted.
func (c *objectCleaner) findUploads() error {
	for n, after := 0, (s3.Upload{}); ; {
		var page []s3.Upload
		var next s3.Upload
		err := c.try(c.client, func() (err error) {
			page, next, err = c.client.Uploads(c.base+c.prefix, after)
			return err
		})
		if err != nil {
			return err
		}
		c.seen.Add(1)
		after = next
		for _, u := range page {
			if name, ok := c.relative(u.Key); ok {
				c.uploads[name] = append(c.uploads[name], u.ID)
			}
		}
		if n += max(len(page), 1); after.Key == "" {
			return nil
		}
		if n > maxAbandoned {
			return fmt.Errorf("there are more than %d uploads in parts in %s%s", maxAbandoned, c.base, c.prefix)
		}
	}
}

// relative returns the name in the run that a key stands for.
func (c *objectCleaner) relative(key string) (string, bool) {
	if len(key) <= len(c.base) || key[:len(c.base)] != c.base {
		return "", false
	}
	return key[len(c.base):], true
}

func (c *objectCleaner) line(kind byte, name string) error {
	switch kind {
	case 'f':
		c.names <- name
	case 'm':
		if err := c.sweep(name); err != nil {
			c.left(err)
			if unreached(err) {
				c.giveUp(errUnreached) // the next folder would take as long, and nothing goes on meanwhile
			}
		}
	}
	return c.ctx.Err() // also where the rest would be in vain
}

// sweep finds what operations of the agent have made in a folder.
func (c *objectCleaner) sweep(dir string) error {
	for name := range c.uploads {
		if path.Dir(name) == dir && madeBy(path.Base(name), c.job.AgentIndex) {
			c.names <- name
		}
	}
	prefix := c.base + dir + "/c" + strconv.Itoa(c.job.AgentIndex) + "."
	var walk s3.Walk
	for next := ""; ; {
		var p s3.Page
		err := c.try(c.client, func() (err error) {
			p, err = c.client.List(prefix, next, true, 1000)
			return err
		})
		if err != nil {
			return err
		}
		c.seen.Add(1)
		for _, key := range p.Keys {
			if name, ok := c.relative(key); ok && madeBy(path.Base(name), c.job.AgentIndex) {
				c.names <- name
			}
		}
		if p.Next == "" || c.ctx.Err() != nil {
			return nil
		}
		if err := walk.On(c.client, p.Next); err != nil {
			return err
		}
		next = p.Next
	}
}

// work aborts the uploads of objects and deletes them: in this order, since an upload that is being completed becomes
// an object.
func (c *objectCleaner) work() {
	client := c.store.Client()
	defer client.Close()
	for name := range c.names {
		if c.ctx.Err() != nil {
			continue // so that nobody waits
		}
		var err error
		for _, id := range c.uploads[name] {
			err = errors.Join(err, c.try(client, func() error { return client.Abort(c.base+name, id) }))
		}
		err = errors.Join(err, c.try(client, func() error { return client.Delete(c.base + name) }))
		c.seen.Add(1)
		if err != nil {
			c.left(err)
			continue
		}
		c.mu.Lock()
		c.report.DeletedFiles++
		c.mu.Unlock()
	}
}

// try calls f, again if the store may be able to do later what it has not done.
func (c *objectCleaner) try(client *s3.Client, f func() error) (err error) {
	began := time.Now()
	for i := range cleanTries {
		err = f()
		switch s3.KindOf(err) {
		case s3.Throttled, s3.Connection, s3.TimedOut, s3.Internal:
		default:
			return err
		}
		client.Close()
		if i == cleanTries-1 || time.Since(began) > cleanFor || !sleep.For(c.ctx, firstPause<<i) {
			return err
		}
	}
	return err
}

func (c *objectCleaner) left(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.LeftFiles++
	if unreached(err) {
		if c.unreached++; c.unreached == maxUnreached {
			c.giveUp(errUnreached)
		}
	}
	if len(c.report.Errors) < maxErrors {
		c.report.Errors = append(c.report.Errors, err.Error())
	}
}
