package s3

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// A Kind is what an error of a store means.
type Kind int

// The kinds of errors.
const (
	Other      Kind = iota
	NotFound        // no such key, bucket or upload
	Denied          // the credentials do not allow it, or the signature is refused
	Throttled       // the store asks for fewer requests
	TimedOut        // nothing was sent or received for the timeout, or the store says so
	Connection      // refused, reset, or closed before the response was complete
	Full            // a quota is used up, or the disk is
	Internal        // an error within the store
	Mismatch        // the response is not what was asked for
)

// An Error is a request that failed.
type Error struct {
	Kind    Kind
	Request string // such as GET /bucket/key
	Status  int    // of HTTP; 0 without a response
	Code    string // of S3, such as NoSuchKey
	Message string // of the store, or why there is no response
	Err     error
}

func (e *Error) Error() string {
	text := e.Request + ": "
	if e.Status > 0 {
		text += fmt.Sprintf("%d ", e.Status)
	}
	if e.Code == "" || e.Message == "" {
		return text + e.Code + e.Message
	}
	return text + e.Code + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error of this package.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Other
}

// lost returns the error of a request without a response.
func (c *Client) lost(err error) error {
	c.drop()
	kind := Connection
	if errors.Is(err, os.ErrDeadlineExceeded) {
		kind, err = TimedOut, fmt.Errorf("nothing was sent or received for %s", c.store.Timeout)
	}
	return &Error{Kind: kind, Request: c.request, Message: c.told(err.Error()), Err: err}
}

// mismatch returns the error of a response that is not what was asked for.
func (c *Client) mismatch(status int, format string, args ...any) error {
	return &Error{Kind: Mismatch, Request: c.request, Status: status, Message: fmt.Sprintf(format, args...)}
}

// refused returns the error that a response has.
func (c *Client) refused(status int, body []byte) error {
	e := &Error{Request: c.request, Status: status, Code: c.told(element(body, "Code")), Message: c.told(element(body, "Message"))}
	e.Kind = kindOf(status, e.Code)
	if e.Code == "" && e.Message == "" {
		e.Message = "the store gave no reason"
	}
	return e
}

// maxTold is how much of a text of a store is kept, in bytes.
const maxTold = 300

// told returns a text of a store as an error may have it: short, of one line, and without credentials.
func (c *Client) told(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(c.store.Credentials.redact(text), "?"))
	if len(text) > maxTold {
		text = strings.ToValidUTF8(text[:maxTold], "") + "..."
	}
	return text
}

func kindOf(status int, code string) Kind {
	switch code {
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequests":
		return Throttled
	case "RequestTimeout":
		return TimedOut
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
		return Full
	}
	switch status {
	case 401, 403:
		return Denied
	case 404:
		return NotFound
	case 408, 504:
		return TimedOut
	case 429, 503:
		return Throttled
	case 507:
		return Full
	}
	if status >= 500 {
		return Internal
	}
	return Other
}
