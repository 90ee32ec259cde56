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
	helloTime  = 2 * time.Second  // that a host has to say who it is
	askTime    = 15 * time.Second // that it has to answer
	orderTime  = 2 * time.Minute  // that it has to accept an order
	reloadTime = time.Hour        // that it has to stop what a reload removes
	maxAnswer  = 64 << 20         // bytes
	maxProblem = 1 << 20          // bytes
)

// A Client asks one host. Its errors are those of the Host, or Unavailable if there
// is nobody, if nobody answers in time, or if the host dies meanwhile.
type Client struct {
	About About // what the host said of itself; of Hosts
	name  string
	lock  string // the file in which it says whose the name is
	http  *http.Client
}

// Connect answers a client of the host in the folder of the sockets. Nobody is
// asked yet.
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

// Hosts answers a client of each host that lives, by name. The error is about those
// that live and do not answer, or about the folder; sockets of dead ones are passed
// over.
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

// greet answers a client of a host that lives, or nil.
func greet(ctx context.Context, dir, name string) (*Client, error) {
	c, err := Connect(dir, name)
	if err != nil {
		return nil, err
	}
	switch err := c.ask(ctx, request{path: "/v1/host", limit: helloTime}, &c.About); {
	case isGone(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return c, nil
}

// isGone reports whether nobody has the socket.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// Name is that of the host.
func (c *Client) Name() string { return c.name }

// Services answers all services, by id.
func (c *Client) Services(ctx context.Context) ([]Service, error) {
	var all []Service
	return all, c.ask(ctx, request{path: "/v1/services"}, &all)
}

// Service answers one.
func (c *Client) Service(ctx context.Context, id string) (Service, error) {
	var s Service
	path, err := pathOf(id)
	if err != nil {
		return s, err
	}
	return s, c.ask(ctx, request{path: path}, &s)
}

// History answers the moves of a service, oldest first.
func (c *Client) History(ctx context.Context, id string) ([]pawl.Transition, error) {
	path, err := pathOf(id)
	if err != nil {
		return nil, err
	}
	var moves []pawl.Transition
	return moves, c.ask(ctx, request{path: path + "/history"}, &moves)
}

// Order has a service started, stopped or restarted, and answers how it is when
// that was accepted.
func (c *Client) Order(ctx context.Context, id string, o Order) (Service, error) {
	var s Service
	path, err := pathOf(id)
	if err != nil {
		return s, err
	}
	body := told{Verb: o.Verb, Actor: o.Actor, Reason: o.Reason, RequestID: o.RequestID}
	return s, c.ask(ctx, request{path: path + "/order", body: &body, limit: orderTime}, &s)
}

// Reload has the host read its file again, and answers what has changed.
func (c *Client) Reload(ctx context.Context, change pawl.Change) ([]Difference, error) {
	body := told{Actor: change.Actor, Reason: change.Reason, RequestID: change.RequestID}
	var d []Difference
	return d, c.ask(ctx, request{path: "/v1/reload", body: &body, limit: reloadTime}, &d)
}

// Logs writes what a service has printed. With Follow it goes on until ctx ends,
// which is no error then, or the host does in good order.
func (c *Client) Logs(ctx context.Context, id string, q LogQuery, w io.Writer) error {
	path, err := pathOf(id)
	if err != nil {
		return err
	}
	answer, err := c.send(ctx, request{path: fmt.Sprintf("%s/logs?tail=%d&follow=%t", path, q.Tail, q.Follow)})
	if err == nil {
		err = c.pour(w, answer)
	}
	if q.Follow && ctx.Err() != nil {
		return nil
	}
	return err
}

// pour writes what comes, and answers the error that comes last.
func (c *Client) pour(w io.Writer, answer *http.Response) error {
	defer answer.Body.Close()
	out := &sink{w: w}
	if _, err := io.Copy(out, answer.Body); err != nil {
		if out.err != nil {
			return out.err
		}
		return c.failed(err)
	}
	return errorOf([]byte(answer.Trailer.Get(problemTrailer)))
}

// A sink tells an error of writing from one of reading.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

// pathOf answers the path of a service.
func pathOf(id string) (string, error) {
	if id == "" || id == "." || id == ".." || len(id) > maxID {
		return "", pawl.Errorf(pawl.NotFound, "there is no service %.100q", id)
	}
	return "/v1/services/" + url.PathEscape(id), nil
}
