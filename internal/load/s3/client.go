package s3

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Piece is how many bytes of content are sent at once, and the most that a Body makes.
const Piece = 256 << 10

// PartBuffers is how many bytes of memory one of several parts that are sent at the same time takes.
const PartBuffers = Piece + together + ownBuffer

const (
	ownBuffer  = 4 << 10  // bytes of a client, for responses
	together   = 16 << 10 // content that is sent with the head of its request, and what is read at once
	maxError   = 64 << 10 // bytes of a response without content that are read
	lateReason = time.Second
	ticketTime = time.Millisecond // for reading what has arrived
)

// A Client has one connection to a store. It is used by one goroutine.
type Client struct {
	store  *Store
	signer *signer
	conn   net.Conn
	raw    syscall.RawConn
	in     *bufio.Reader
	head   []byte // of the request
	path   []byte
	query  []byte
	buffer []byte // for responses without content
	asked  http.Request
	polled [1]unix.PollFd

	request string // for errors

	// Sent is called with the number of bytes of a content that have been sent; nil: nothing is called.
	Sent func(n int)
	// Stop reports whether no request is to be tried again. It may be called from several goroutines. Nil: each may be.
	Stop func() bool
	// Aside is the time that the last call has spent on what is no part of a request: contents are hashed
	// before it begins. Hashes of parts that are sent at the same time are not in it.
	Aside time.Duration
	// First is the time of the last Get until the first byte of the content or, if it is empty, the head of the response
	// was there.
	First time.Duration
	// Retried is how many requests were tried again; who reads it sets it to 0.
	Retried uint64

	helpers []*Client // for parts that are sent at the same time
	piece   []byte    // of such a part
}

// Connect opens the connection if there is none that can be used.
func (c *Client) Connect(ctx context.Context) error {
	if c.conn != nil && c.stale() {
		c.drop()
	}
	if c.conn != nil {
		return nil
	}
	if c.request == "" {
		c.request = "connect to " + c.store.Endpoint
	}
	dialer := net.Dialer{Timeout: c.store.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", c.store.address)
	if err != nil {
		return c.unreached(err)
	}
	if c.raw, err = conn.(*net.TCPConn).SyscallConn(); err != nil {
		return errors.Join(err, conn.Close())
	}
	if c.store.tls != nil {
		secure := tls.Client(conn, c.store.tls)
		if err := errors.Join(conn.SetDeadline(time.Now().Add(c.store.Timeout)), secure.HandshakeContext(ctx)); err != nil {
			return errors.Join(c.unreached(err), conn.Close())
		}
		conn = secure
	}
	c.conn = conn
	if c.in == nil {
		c.in = bufio.NewReaderSize(nil, together)
	}
	c.in.Reset(conn)
	return nil
}

// unreached returns the error of a connection that cannot be made.
func (c *Client) unreached(err error) error {
	kind, netErr := Connection, net.Error(nil)
	if errors.As(err, &netErr) && netErr.Timeout() {
		kind = TimedOut
	}
	return &Error{Kind: kind, Request: c.request, Message: c.told(err.Error()), Err: err}
}

// Close closes the connections; the next request makes new ones.
func (c *Client) Close() {
	for _, h := range c.helpers {
		h.drop()
	}
	c.drop()
}

// drop closes the connection of the client itself.
func (c *Client) drop() {
	if c.conn != nil {
		_ = c.conn.Close() // what was sent has its response, or does not matter
		c.conn = nil
	}
}

// stale reports whether something has arrived since the last response: the end of the connection, or
// what nobody has asked for. What is for TLS alone, such as the tickets that servers of version 1.3 send after the
// handshake, is read and does not count.
func (c *Client) stale() bool {
	for c.in.Buffered() == 0 {
		if !c.readable() {
			return false
		}
		if c.store.tls == nil || c.conn.SetReadDeadline(time.Now().Add(ticketTime)) != nil {
			return true
		}
		if _, err := c.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return true
}

// readable reports whether the connection has something to read.
func (c *Client) readable() (readable bool) {
	err := c.raw.Control(func(fd uintptr) {
		c.polled[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		n, err := unix.Poll(c.polled[:], 0)
		readable = err == nil && n > 0
	})
	return readable || err != nil
}

// A Body makes n bytes of a content from an offset on, at most Piece. They are valid until the next call.
type Body func(offset int64, n int) []byte

// A call is one request.
type call struct {
	method  string
	key     string
	headers string // lines, each with its end
	size    int64  // of the body
	body    Body   // nil: c.buffer has it
	fixed   []byte // a body that is at hand
	from    int64  // where the content begins in the object
}

// do sends a request and returns the head of its response. The caller reads the body and calls done.
// c.query has the query, encoded and in order.
func (c *Client) do(q call) (*http.Response, error) {
	if err := c.begin(context.Background(), q); err != nil {
		return nil, err
	}
	return c.exchange(q)
}

// begin begins a request: it has a connection then.
func (c *Client) begin(ctx context.Context, q call) error {
	c.request = q.method + " " + c.store.path + q.key
	c.Aside = 0
	return c.Connect(ctx)
}

// exchange sends a request that has begun and returns the head of its response.
func (c *Client) exchange(q call) (*http.Response, error) {
	c.write(q)
	if q.size > 0 && q.size <= together {
		c.head = append(c.head, q.part(0, int(q.size))...)
	}
	r, err := c.roundTrip(q)
	if err != nil {
		return nil, c.lost(err)
	}
	return r, nil
}

// part returns a part of the body.
func (q *call) part(offset int64, n int) []byte {
	if q.body == nil {
		return q.fixed[offset : offset+int64(n)]
	}
	return q.body(q.from+offset, n)
}

// write makes the head of a request.
func (c *Client) write(q call) {
	c.path = appendEscaped(append(c.path[:0], c.store.path...), q.key, true)
	payload := c.payload(q)
	c.signer.at(time.Now())
	b := append(append(append(c.head[:0], q.method...), ' '), c.path...)
	if len(c.query) > 0 {
		b = append(append(b, '?'), c.query...)
	}
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), c.store.host...), "\r\nUser-Agent: pawl\r\n"...)
	b = append(b, q.headers...)
	if q.method == http.MethodPut || q.method == http.MethodPost {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), q.size, 10), "\r\n"...)
	}
	b = c.signer.appendHeaders(b, q.method, c.store.host, c.path, c.query, payload)
	c.head = append(b, "\r\n"...)
}

// payload returns what the signature has of the body.
func (c *Client) payload(q call) string {
	switch {
	case q.size == 0:
		return emptyHash
	case !c.store.SignPayload:
		return unsigned
	}
	began := time.Now()
	h := sha256.New()
	for at := int64(0); at < q.size; at += Piece {
		h.Write(q.part(at, int(min(Piece, q.size-at))))
	}
	sum := fmt.Sprintf("%x", h.Sum(nil))
	c.Aside += time.Since(began)
	return sum
}

// roundTrip sends what was written and the body, and reads the head of the response. A store that does not
// read the body may have said why.
func (c *Client) roundTrip(q call) (*http.Response, error) {
	err := c.send(c.head)
	if q.size <= together && err == nil {
		c.sent(q, int(q.size))
	}
	if q.size > together {
		for at := int64(0); at < q.size && err == nil; at += Piece {
			n := int(min(Piece, q.size-at))
			if err = c.send(q.part(at, n)); err == nil {
				c.sent(q, n)
			}
		}
	}
	wait := c.store.Timeout
	if err != nil {
		wait = min(wait, lateReason)
	}
	if e := c.conn.SetReadDeadline(time.Now().Add(wait)); e != nil {
		return nil, e
	}
	r, reading := c.response(q.method)
	if err != nil && (reading != nil || r.StatusCode < 300) {
		return nil, err
	}
	if err != nil {
		r.Close = true // it is still waiting for the body
	}
	return r, reading
}

// sent reports that a part of a body has been sent.
func (c *Client) sent(q call, n int) {
	if c.Sent != nil && q.body != nil {
		c.Sent(n)
	}
}

// response reads the head of a response, after those that only announce it.
func (c *Client) response(method string) (*http.Response, error) {
	c.asked.Method = method
	for {
		r, err := http.ReadResponse(c.in, &c.asked)
		if err == io.ErrUnexpectedEOF {
			err = errors.New("the store has closed the connection without a response")
		}
		if err != nil || r.StatusCode >= 200 {
			return r, err
		}
	}
}

func (c *Client) send(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.store.Timeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// read reads from a body until b is full or the body ends.
func (c *Client) read(r *http.Response, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		if err = c.conn.SetReadDeadline(time.Now().Add(c.store.Timeout)); err == nil {
			var got int
			got, err = r.Body.Read(b[n:])
			n += got
		}
	}
	if err == io.EOF && n == len(b) {
		err = nil
	}
	return n, err
}

// done reads what is left of a response, and closes the connection if that is much or the store wants it closed.
func (c *Client) done(r *http.Response) {
	if c.conn == nil {
		return
	}
	n, err := c.read(r, c.buffer)
	if r.Close || err != io.EOF && (err != nil || n == len(c.buffer)) {
		c.drop()
	}
}

// document reads a response that is small, and returns its body, which is valid until the next call.
func (c *Client) document(r *http.Response, most int) ([]byte, error) {
	n := 0
	for {
		got, err := c.read(r, c.buffer[n:])
		n += got
		switch {
		case err == io.EOF:
			if r.Close {
				c.drop()
			}
			return c.buffer[:n], nil
		case err == io.ErrUnexpectedEOF:
			return nil, c.lost(errors.New("the store has closed the connection before the end of the response"))
		case err != nil:
			return nil, c.lost(err)
		case n >= most:
			c.drop()
			return nil, c.mismatch(r.StatusCode, "the response has more than %d bytes", most)
		}
		c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
	}
}

// expect returns an error unless a response has one of the statuses.
func (c *Client) expect(r *http.Response, statuses ...int) error {
	for _, s := range statuses {
		if r.StatusCode == s {
			return nil
		}
	}
	body, err := c.document(r, maxError)
	if err != nil {
		return err
	}
	return c.refused(r.StatusCode, body)
}

// simple sends a request whose response has no content that matters. A ctx that ends closes the connection, wherever the
// request is.
func (c *Client) simple(ctx context.Context, q call, statuses ...int) (*http.Response, error) {
	if err := c.begin(ctx, q); err != nil {
		return nil, err
	}
	if ctx.Done() != nil {
		conn := c.conn
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // what does not return then finds it closed
	}
	r, err := c.exchange(q)
	if err != nil {
		return nil, err
	}
	if err := c.expect(r, statuses...); err != nil {
		return nil, err
	}
	c.done(r)
	return r, nil
}
