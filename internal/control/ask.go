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
	body *instruction // nil: a GET

	limit time.Duration // for the response; 0: askTime
}

// ask sends a request and decodes the response into v.
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

// send sends a request and returns the response, or the error in it. The caller closes the
// body.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	q, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(q)
	if err != nil {
		var outer *url.Error // it names the placeholder address
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
	if err := errorOf(answer.StatusCode, text); err != nil {
		return nil, err
	}
	return nil, c.failed(fmt.Errorf("it responded %s", answer.Status))
}

// request returns the HTTP request for r.
func (c *Client) request(ctx context.Context, r request) (*http.Request, error) {
	base := "http://pawl/v1" // a placeholder: the socket is dialled
	if c.remote() {
		base = "http://pawl/api/hosts"
		if c.name != "" {
			base += "/" + url.PathEscape(c.name)
		}
	}
	if r.body == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, base+r.path, nil)
	}
	var body any = r.body
	if c.remote() {
		body = order{r.body.Reason, r.body.RequestID}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, base+r.path, bytes.NewReader(text))
	if err == nil && c.remote() {
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Pawl-Actor", r.body.Actor)
	}
	return q, err
}

// A GoneError is the cause of an error about a host that does not run, or that has ended
// during the request.
type GoneError struct{ Err error } // of the socket

func (e *GoneError) Error() string {
	if isGone(e.Err) {
		return "no process listens on its socket"
	}
	return e.Err.Error()
}

func (e *GoneError) Unwrap() error { return e.Err }

// failed converts an error of a request to a pawl.Error.
func (c *Client) failed(err error) error {
	e := &pawl.Error{Kind: pawl.Unavailable, Err: err}
	var known *pawl.Error // of the transport to a server
	switch {
	case c.remote() && errors.As(err, &known):
		return known
	case isGone(err):
		e.Message, e.Err = c.name+" does not run", &GoneError{err}
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Message = pawl.Refused, "the socket of "+c.name+" may not be used"
	case errors.Is(err, context.DeadlineExceeded):
		e.Message, e.Hint, e.Err = c.name+" does not respond", "its process is stopped, or stuck", nil
		if holder, ok := holderOf(c.lock); ok {
			e.Hint += fmt.Sprintf(": pid %d", holder.PID)
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Message, e.Err = c.name+" ended during the request", &GoneError{err}
	default:
		e.Message = c.name + " gave an invalid response"
	}
	return e
}
