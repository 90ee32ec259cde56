package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
)

type request struct {
	path string
	body *told // nil: it is a GET

	limit time.Duration // for the answer; 0: the usual one
}

// ask sends a request and reads the answer into v.
func (c *Client) ask(ctx context.Context, r request, v any) error {
	within, cancel := context.WithTimeout(ctx, cmp.Or(r.limit, askTime))
	defer cancel()
	answer, err := c.send(within, r)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return cmp.Or(ctx.Err(), c.failed(err))
	}
	return nil
}

// send sends a request and answers what comes, if that is not an error. The body is
// the caller's to close.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	q, err := r.of(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(q)
	if err != nil {
		var outer *url.Error // which would name an address that nobody knows
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return nil, c.failed(err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if err != nil {
		return nil, c.failed(err)
	}
	if err := errorOf(text); err != nil {
		return nil, err
	}
	return nil, c.failed(fmt.Errorf("it answered %s", answer.Status))
}

func (r request) of(ctx context.Context) (*http.Request, error) {
	const host = "http://pawl" // of the socket
	if r.body == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, host+r.path, nil)
	}
	text, err := json.Marshal(r.body)
	if err != nil {
		return nil, err
	}
	return http.NewRequestWithContext(ctx, http.MethodPost, host+r.path, bytes.NewReader(text))
}

// A goneError says in words that nobody has a socket.
type goneError struct{ error }

func (goneError) Error() string   { return "nobody has its socket" }
func (e goneError) Unwrap() error { return e.error }

// failed is the error of a host that cannot be asked.
func (c *Client) failed(err error) error {
	e := &pawl.Error{Kind: pawl.Unavailable, Err: err}
	switch {
	case isGone(err):
		e.Message, e.Err, e.Hint = c.name+" does not run", goneError{err}, "list what runs with: pawl service list"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Message = pawl.Refused, "the socket of "+c.name+" may not be used"
	case errors.Is(err, context.DeadlineExceeded):
		e.Message, e.Hint, e.Err = c.name+" does not answer", "its process is stopped, or stuck", nil
		if holder, ok := holderOf(c.lock); ok {
			e.Hint += fmt.Sprintf(": pid %d", holder.PID)
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Message, e.Hint = c.name+" has ended while it was asked", "list what runs with: pawl service list"
	default:
		e.Message = c.name + " does not answer as it should"
	}
	return e
}
