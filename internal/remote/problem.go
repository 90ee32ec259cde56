package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A problem is an error as the API answers it (RFC 9457).
type problem struct {
	Status    int             `json:"status"`
	Title     string          `json:"title"`
	Detail    string          `json:"detail"`
	Code      string          `json:"code"`
	Hint      string          `json:"hint"`
	RequestID string          `json:"request_id"`
	Entity    string          `json:"entity"`
	From      machine.State   `json:"from"`
	Event     machine.Event   `json:"event"`
	Allowed   []machine.Event `json:"allowed"`
	Current   int64           `json:"current"`
}

// errorOf returns the error that a response is.
func (e *Engine) errorOf(c *call, response *http.Response, text []byte) error {
	var p problem
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if media != "application/problem+json" || json.Unmarshal(text, &p) != nil || p.Code == "" {
		return e.foreign(response.StatusCode)
	}
	p.Status = response.StatusCode
	return e.of(c, &p)
}

// foreign returns the error for a response that is none of a Pawl server.
func (e *Engine) foreign(status int) error {
	err := pawl.Errorf(pawl.Invalid, "the server at %s responds with HTTP status %d, and not as a Pawl server does", e.base, status)
	switch status {
	case http.StatusRequestEntityTooLarge: // of a proxy with a limit of its own
		return err
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		err.Kind, err.Hint = pawl.Unavailable, "try again later"
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		err.Kind = pawl.Refused
	}
	return &named{err, errForeign}
}

// errForeign is an answer that says nothing about the request: something between this process
// and the server has given it, or what listens there is no server.
var errForeign = errors.New("the response is not that of a Pawl server")

// kinds are the kinds of errors by status, but for internal ones.
var kinds = map[int]pawl.Kind{
	http.StatusUnauthorized:       pawl.Refused,
	http.StatusForbidden:          pawl.Refused,
	http.StatusNotFound:           pawl.NotFound,
	http.StatusConflict:           pawl.Conflict,
	http.StatusGone:               pawl.Conflict,
	http.StatusPreconditionFailed: pawl.Conflict,
	http.StatusTooManyRequests:    pawl.Unavailable,
	http.StatusBadGateway:         pawl.Unavailable,
	http.StatusServiceUnavailable: pawl.Unavailable,
	http.StatusGatewayTimeout:     pawl.Unavailable,
}

// of returns the error of a local engine that a problem stands for.
func (e *Engine) of(c *call, p *problem) error {
	kind, known := kinds[p.Status]
	if !known && p.Status < 500 {
		kind = pawl.Invalid
	}
	err := &pawl.Error{Kind: kind, Message: cmp.Or(p.Detail, p.Title, p.Code), Hint: p.Hint}
	if job := c.job(); job != "" && strings.Contains(err.Message, job) {
		err.Entity = job
	}
	switch {
	case p.Code == "KEY_REUSED":
		return &named{err, link.ErrKeyReused}
	case p.Code == "REQUEST_IN_PROGRESS":
		return &named{err, link.ErrKeyHeld}
	case p.Code == "WORKER_ENDED":
		return &named{err, link.ErrWorkerEnded}
	case p.Code == "PRECONDITION_FAILED":
		return &named{err, link.ErrChanged}
	case p.Code == "TURN":
		return &named{err, &link.TurnError{Current: p.Current}}
	case p.Code == "UNAUTHENTICATED":
		err.Hint = "name a token with PAWL_TOKEN, or --token-file FILE; \"pawl token create\" makes one"
	case p.Code == "SECRET_SHOWN":
		return &named{err, link.ErrSecretShown}
	case p.Code == "INVALID_STATE_TRANSITION":
		return refusalOf(c.operation, p, err)
	case p.Code == "NO_SUCH_OPERATION" || p.Code == "METHOD_NOT_ALLOWED":
		return e.missing(c.operation)
	case kind == pawl.Unavailable:
		err.Message = "the server at " + e.base + ": " + err.Message
	case kind == pawl.Internal:
		err.Message, err.Hint = "the server at "+e.base+": "+err.Message, "its log has the reason, under the request id "+p.RequestID
	}
	return err
}

// job returns the id of the job that the path of a call names, or "".
func (c *call) job() string {
	rest, is := strings.CutPrefix(c.path, "/api/jobs/"+pawl.JobPrefix)
	if !is {
		return ""
	}
	digits, _, _ := strings.Cut(rest, "/")
	return pawl.JobPrefix + digits
}

// A named error is a *pawl.Error that another error tells apart.
type named struct {
	err *pawl.Error
	is  error
}

func (n *named) Error() string { return n.err.Error() }

func (n *named) Unwrap() []error { return []error{n.err, n.is} }

func isHeld(err error) bool { return errors.Is(err, link.ErrKeyHeld) }

// machines are the state machines by the last word of the operations that move them.
var machines = map[string]*machine.Machine{
	"job": lifecycle.Job, "step": lifecycle.Step, "worker": lifecycle.Worker, "schedule": lifecycle.Schedule, "token": lifecycle.Token, "queue": lifecycle.QueuePause, "webhook": lifecycle.Webhook,
}

// refusalOf returns the refusal of a transition. What this program's table would say in
// other words, or with a hint, also keeps the words of the server.
func refusalOf(operation string, p *problem, err *pawl.Error) error {
	r := &machine.Refusal{Entity: p.Entity, State: p.From, Event: p.Event, Allowed: p.Allowed}
	if m := machines[operation[strings.LastIndex(operation, "-")+1:]]; m != nil {
		var own *machine.Refusal
		if _, no := m.Next(p.From, p.Event); errors.As(no, &own) {
			r.Already, r.Unknown, r.Final = own.Already, own.Unknown, own.Final
		}
		r.Machine = m.Name
	}
	if r.Error() == err.Message && err.Hint == "" {
		return r
	}
	return &named{err, r}
}
