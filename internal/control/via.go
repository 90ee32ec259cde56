package control

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/pawl-dev/pawl"
)

// A HostView is a host as the HTTP API of a server shows it.
type HostView struct {
	About
	Problem string `json:"problem,omitempty"` // why it does not respond; nothing else but the name is known then
}

// order is what an order, or a reload, is in the HTTP API, which has the actor in a header and
// the verb in the path.
type order struct {
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// A page is a part of a list in the HTTP API.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// Via returns a client of each live host on the machine of a server, by name, or of the one
// named only. They work through the HTTP API of the server: send sends a request to it, whose
// URL has the path alone. The error is about hosts that do not respond, or about the server.
func Via(ctx context.Context, send http.RoundTripper, only string) ([]*Client, error) {
	through := &http.Client{Transport: send, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var all page[HostView]
	if err := (&Client{http: through}).ask(ctx, request{path: ""}, &all); err != nil {
		return nil, err
	}
	var hosts []*Client
	var silent []error
	for _, h := range all.Items {
		switch {
		case only != "" && h.Name != only:
		case h.Problem != "":
			silent = append(silent, &pawl.Error{Kind: pawl.Unavailable, Message: h.Problem})
		default:
			hosts = append(hosts, &Client{About: h.About, name: h.Name, http: through})
		}
	}
	return hosts, errors.Join(silent...)
}

// remote reports whether the host is on the machine of a server.
func (c *Client) remote() bool { return c.lock == "" }

// listOf reads a list, page by page if the host is on the machine of a server.
func listOf[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	var all []T
	if !c.remote() {
		err := c.ask(ctx, request{path: path}, &all)
		return all, err
	}
	for next := ""; ; {
		var p page[T]
		query := url.Values{"limit": {"100"}}
		if next != "" {
			query.Set("cursor", next)
		}
		if err := c.ask(ctx, request{path: path + "?" + query.Encode()}, &p); err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if next = p.Next; next == "" {
			return all, nil
		}
	}
}
