package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pawl-dev/pawl"
)

// A problem is an error on the socket (RFC 9457), with kind and hint.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Kind   string `json:"kind"`
	Hint   string `json:"hint,omitempty"`
}

const problemType = "application/problem+json"

// kinds are the names and HTTP statuses of the kinds of errors.
var kinds = map[pawl.Kind]struct {
	name   string
	status int
}{
	pawl.Internal:    {"internal", http.StatusInternalServerError},
	pawl.Invalid:     {"invalid", http.StatusBadRequest},
	pawl.NotFound:    {"not_found", http.StatusNotFound},
	pawl.Conflict:    {"conflict", http.StatusConflict},
	pawl.Refused:     {"refused", http.StatusForbidden},
	pawl.Unavailable: {"unavailable", http.StatusServiceUnavailable},
}

func problemOf(err error) problem {
	kind := pawl.KindOf(err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		kind = pawl.Unavailable
	}
	k := kinds[kind]
	return problem{Title: http.StatusText(k.status), Status: k.status, Detail: err.Error(), Kind: k.name, Hint: hintOf(err)}
}

// hintOf returns the first hint in the chain of an error.
func hintOf(err error) string {
	for e := (*pawl.Error)(nil); errors.As(err, &e); err = e.Err {
		if e.Hint != "" || e.Err == nil {
			return e.Hint
		}
	}
	return ""
}

// errorOf returns the error in a problem, or nil if the text is none. A problem of a server says
// the kind by its status.
func errorOf(status int, text []byte) error {
	var p problem
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		return nil
	}
	e := &pawl.Error{Kind: pawl.Internal, Message: p.Detail, Hint: p.Hint}
	for kind, k := range kinds {
		if k.name == p.Kind || p.Kind == "" && k.status == status {
			e.Kind = kind
		}
	}
	switch {
	case p.Kind != "":
	case status == http.StatusUnprocessableEntity:
		e.Kind = pawl.Invalid
	case status == http.StatusUnauthorized:
		e.Kind = pawl.Refused
	case status == http.StatusTooManyRequests:
		e.Kind = pawl.Unavailable
	}
	return e
}
