package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	helloTime  = 2 * time.Second  // for a host to identify itself
	askTime    = 15 * time.Second // for it to respond
	orderTime  = 2 * time.Minute  // for it to accept an order
	reloadTime = time.Hour        // for it to stop what a reload removes
	maxAnswer  = 64 << 20         // bytes
	maxProblem = 1 << 20          // bytes
)

// A Client talks to one host. Its errors are those of the Host, or Unavailable if no
// process listens on the socket, if it does not respond in time, or if it dies meanwhile.
type Client struct {
	About About // how the host identifies itself; set by Hosts only
	name  string
	lock  string // the file that names the holder of the name; empty: it is on the machine of a server
	http  *http.Client
}

// Connect returns a client of a host with a socket in dir. It sends nothing yet.
func Connect(dir, name string) (*Client, error) {
	path, err := socketOf(dir, name)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{name: name, lock: lockOf(path), http: &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Hosts returns a client of each live host, by name. The error is about live hosts that do
// not respond, or about the folder; sockets of dead hosts are skipped.
func Hosts(ctx context.Context, dir string) ([]*Client, error) {
	err := checkFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var entries []os.DirEntry
	if err == nil {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return nil, err
	}
	var asked sync.WaitGroup
	clients, errs := make([]*Client, len(entries)), make([]error, len(entries))
	for i, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), socketEnding); ok && CheckName(name) == nil {
			asked.Go(func() { clients[i], errs[i] = greet(ctx, dir, name) })
		}
	}
	asked.Wait()
	return slices.DeleteFunc(clients, func(c *Client) bool { return c == nil }), errors.Join(errs...)
}

// greet returns a client of a live host, or nil.
func greet(ctx context.Context, dir, name string) (*Client, error) {
	c, err := Connect(dir, name)
	if err != nil {
		return nil, err
	}
	switch err := c.ask(ctx, request{path: "/host", limit: helloTime}, &c.About); {
	case isGone(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return c, nil
}

// isGone reports whether no process listens on the socket.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// Name returns the name of the host.
func (c *Client) Name() string { return c.name }

// Services returns all services, by id.
func (c *Client) Services(ctx context.Context) ([]Service, error) {
	return listOf[Service](ctx, c, "/services")
}

// Service returns one service.
func (c *Client) Service(ctx context.Context, id string) (Service, error) {
	var s Service
	path, err := pathOf(id)
	if err == nil {
		err = c.ask(ctx, request{path: path}, &s)
	}
	return s, err
}

// History returns the transitions of a service, oldest first.
func (c *Client) History(ctx context.Context, id string) ([]pawl.Transition, error) {
	path, err := pathOf(id)
	if err != nil {
		return nil, err
	}
	return listOf[pawl.Transition](ctx, c, path+"/history")
}

// Offers returns, for each verb, whether an order would have an effect now. The host is on this
// machine.
func (c *Client) Offers(ctx context.Context, id string) ([]Offer, error) {
	path, err := pathOf(id)
	if err != nil {
		return nil, err
	}
	return listOf[Offer](ctx, c, path+"/offers")
}

// Order starts, stops or restarts a service, and returns its view when the order is
// accepted.
func (c *Client) Order(ctx context.Context, id string, o Order) (Service, error) {
	var s Service
	path, err := pathOf(id)
	if err != nil {
		return s, err
	}
	r := request{path: path + "/order", body: &instruction{Verb: o.Verb, Actor: o.Actor, Reason: o.Reason, RequestID: o.RequestID}, limit: orderTime}
	if c.remote() {
		r.path = path + "/" + string(o.Verb)
	}
	err = c.ask(ctx, r, &s)
	return s, err
}

// Reload makes the host read its file again, and returns what has changed.
func (c *Client) Reload(ctx context.Context, change pawl.Change) ([]Difference, error) {
	body := instruction{Actor: change.Actor, Reason: change.Reason, RequestID: change.RequestID}
	r := request{path: "/reload", body: &body, limit: reloadTime}
	if c.remote() {
		var p page[Difference]
		err := c.ask(ctx, r, &p)
		return p.Items, err
	}
	var d []Difference
	err := c.ask(ctx, r, &d)
	return d, err
}

// Logs writes what a service has printed. With Follow it continues until ctx ends or the
// host shuts down; neither is an error.
func (c *Client) Logs(ctx context.Context, id string, q LogQuery, w io.Writer) error {
	path, err := pathOf(id)
	if err != nil {
		return err
	}
	answer, err := c.send(ctx, request{path: fmt.Sprintf("%s/logs?tail=%d&follow=%t", path, q.Tail, q.Follow)})
	if err == nil {
		err = c.copyLogs(w, answer)
	}
	if q.Follow && ctx.Err() != nil {
		return nil
	}
	return err
}

// copyLogs copies the body to w, and returns the error in the trailer.
func (c *Client) copyLogs(w io.Writer, answer *http.Response) error {
	defer answer.Body.Close()
	out := &sink{w: w}
	if _, err := io.Copy(out, answer.Body); err != nil {
		if out.err != nil {
			return out.err
		}
		return c.failed(err)
	}
	return errorOf(0, []byte(answer.Trailer.Get(problemTrailer)))
}

// A sink records the errors of w, to distinguish them from those of reading.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

// pathOf returns the URL path of a service.
func pathOf(id string) (string, error) {
	if id == "" || id == "." || id == ".." || len(id) > maxID {
		return "", pawl.Errorf(pawl.NotFound, "there is no service %.100q", id)
	}
	return "/services/" + url.PathEscape(id), nil
}
