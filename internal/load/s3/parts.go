package s3

import (
	"context"
	"sync"
	"time"
)

// An upload is an object that is uploaded in parts.
type upload struct {
	key, id string
	size    int64
	part    int64  // the size of each but the last one
	cut     func() // cuts off the parts that are being sent; nil: no other is

	mu   sync.Mutex // guards the fields below
	body Body       // makes one piece at a time
	next int        // the next part, from 0 on
	tags []string
	err  error // the first
}

func (c *Client) putParts(key string, size int64, body Body) error {
	id, err := c.create(key)
	if err != nil {
		return err
	}
	aside := c.Aside
	part := max(c.store.PartSize, (size+maxParts-1)/maxParts)
	u := &upload{key: key, id: id, size: size, part: part, body: body, tags: make([]string, (size+part-1)/part)}
	if n := min(c.store.PartsAtOnce, len(u.tags)); n > 1 {
		c.sendTogether(u, n)
	} else {
		aside += c.sendParts(context.Background(), u, body)
	}
	if err = u.err; err == nil {
		err = c.complete(key, id, u.tags)
	}
	if err != nil {
		_ = c.Abort(key, id) // the error counts; what is left the cleanup finds
	}
	c.Aside = aside
	return err
}

// sendTogether has n clients send the parts, this one among them, and returns when all have ended. Once a part has
// failed none is tried again, and those that are being sent are cut off.
func (c *Client) sendTogether(u *upload, n int) {
	ctx, cut := context.WithCancel(context.Background())
	defer cut()
	u.cut = cut
	stop := c.Stop
	c.Stop = func() bool { return u.failed() || stop != nil && stop() }
	var all sync.WaitGroup
	for _, h := range c.helpersFor(n - 1) {
		h.Sent, h.Stop = c.Sent, c.Stop
		all.Go(func() { h.sendParts(ctx, u, h.copied(u)) })
	}
	c.sendParts(ctx, u, c.copied(u))
	all.Wait()
	c.Stop = stop
	for _, h := range c.helpers {
		c.Retried += h.Retried
		h.Retried = 0
	}
	if u.err != nil {
		c.Close() // what cuts off may still be closing connections
	}
}

// helpersFor returns n clients besides this one.
func (c *Client) helpersFor(n int) []*Client {
	for len(c.helpers) < n {
		c.helpers = append(c.helpers, c.store.Client())
	}
	return c.helpers[:n]
}

// ConnectParts opens the connections for parts that are sent at the same time, each within a limit.
func (c *Client) ConnectParts(ctx context.Context, limit time.Duration) error {
	for _, h := range c.helpersFor(max(c.store.PartsAtOnce-1, 0)) {
		one, cancel := context.WithTimeout(ctx, limit)
		err := h.Connect(one)
		if cancel(); err != nil {
			return err
		}
	}
	return nil
}

// copied returns the body of an upload for one of several clients: they cannot share what it returns.
func (c *Client) copied(u *upload) Body {
	if c.piece == nil {
		c.piece = make([]byte, Piece)
	}
	return func(offset int64, n int) []byte {
		u.mu.Lock()
		defer u.mu.Unlock()
		return c.piece[:copy(c.piece, u.body(offset, n))]
	}
}

// sendParts sends parts until there are no more, one has failed or ctx ends, and returns the time for hashes.
func (c *Client) sendParts(ctx context.Context, u *upload, body Body) (aside time.Duration) {
	for {
		i, more := u.take()
		if !more {
			return aside
		}
		at := int64(i) * u.part
		tag, err := c.putPart(ctx, u.key, u.id, i+1, at, min(u.part, u.size-at), body)
		aside += c.Aside
		u.sent(i, tag, err)
	}
}

// take returns the next part to be sent.
func (u *upload) take() (i int, more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil || u.next == len(u.tags) {
		return 0, false
	}
	u.next++
	return u.next - 1, true
}

// failed reports whether a part has failed for good.
func (u *upload) failed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err != nil
}

func (u *upload) sent(i int, tag string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tags[i] = tag; u.err == nil && err != nil {
		u.err = err
		if u.cut != nil {
			u.cut()
		}
	}
}
