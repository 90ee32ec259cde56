package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// What a host has is what a client sees (S14).
func TestAsking(t *testing.T) {
	t.Parallel()
	f, dir := &fake{}, folder(t)
	l, _ := serve(t, dir, f)
	c := connect(t, dir, "shop")
	ctx := t.Context()

	hosts, err := Hosts(ctx, dir)
	if err != nil || len(hosts) != 1 || hosts[0].Name() != "shop" || hosts[0].About.PID != os.Getpid() || hosts[0].About.Role != "supervisor" {
		t.Errorf("Hosts: %v, %v", hosts, err)
	}
	all, err := c.Services(ctx)
	if diff := cmp.Diff(f.Services(), all); diff != "" || err != nil {
		t.Errorf("Services: %v (-want +got)\n%s", err, diff)
	}
	const odd = "a b/ü?#%"
	if s, err := c.Service(ctx, odd); err != nil || s.ID != odd {
		t.Errorf("Service: %v, %v", s, err)
	}
	moves, err := c.History(ctx, "web")
	if err != nil || len(moves) != 1 || moves[0].Entity != "sv_web" {
		t.Errorf("History: %v, %v", moves, err)
	}
	var b bytes.Buffer
	if err := c.Logs(ctx, "web", LogQuery{Tail: 7}, &b); err != nil || b.String() != "web 7\n" {
		t.Errorf("Logs: %q, %v", b.String(), err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, l.Path(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// Every verb arrives with who wants it, and why.
func TestOrders(t *testing.T) {
	t.Parallel()
	f, dir := &fake{}, folder(t)
	f.reload = func(c pawl.Change) ([]Difference, error) {
		return []Difference{{ID: "web", What: "changed", Keys: []string{c.Actor, c.Reason}}}, nil
	}
	serve(t, dir, f)
	c := connect(t, dir, "shop")
	by := pawl.Change{Actor: "cli:ada", Reason: "new \"disk\"", RequestID: "r1"}
	for _, verb := range []Verb{Start, Stop, Restart} {
		want := Order{Verb: verb, Change: by}
		if s, err := c.Order(t.Context(), "web", want); err != nil || s.ID != "web" || f.last() != want {
			t.Errorf("%s: %v, %v; the host has %v", verb, s, err, f.last())
		}
	}
	offers, err := c.Offers(t.Context(), "web")
	if diff := cmp.Diff([]Offer{{Verb: Start, OK: true}, {Verb: Stop, WhyNot: "web stays"}, {Verb: Restart, OK: true}}, offers); diff != "" || err != nil {
		t.Errorf("Offers: %v (-want +got)\n%s", err, diff)
	}
	if _, err := c.Offers(t.Context(), "none"); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("offers of no service: %v", err)
	}
	got, err := c.Reload(t.Context(), by)
	if diff := cmp.Diff([]Difference{{ID: "web", What: "changed", Keys: []string{"cli:ada", "new \"disk\""}}}, got); diff != "" || err != nil {
		t.Errorf("Reload: %v (-want +got)\n%s", err, diff)
	}
	for name, o := range map[string]Order{
		"no actor":     {Verb: Stop},
		"long actor":   {Verb: Stop, Change: pawl.Change{Actor: strings.Repeat("a", maxActor+1)}},
		"unknown verb": {Verb: "explode", Change: by},
		"long body":    {Verb: Stop, Change: pawl.Change{Actor: "a", Reason: strings.Repeat("r", maxBody)}},
	} {
		if _, err := c.Order(t.Context(), "web", o); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%s: %v; want an error of kind Invalid", name, err)
		}
	}
}

// An error keeps its kind, its text and its hint over the socket.
func TestErrors(t *testing.T) {
	t.Parallel()
	f, dir := &fake{}, folder(t)
	kinds := []pawl.Kind{pawl.Internal, pawl.Invalid, pawl.NotFound, pawl.Conflict, pawl.Refused, pawl.Unavailable}
	f.reload = func(c pawl.Change) ([]Difference, error) {
		return nil, &pawl.Error{Kind: kinds[len(c.Reason)], Message: "no", Hint: "wait"}
	}
	serve(t, dir, f)
	c := connect(t, dir, "shop")
	ctx := t.Context()
	for i, kind := range kinds {
		_, err := c.Reload(ctx, pawl.Change{Actor: "a", Reason: strings.Repeat("r", i)})
		wants(t, fmt.Sprint("kind ", kind), err, &pawl.Error{Kind: kind, Message: "no", Hint: "wait"})
	}
	_, err := c.Order(ctx, "db", Order{Verb: Start, Change: pawl.Change{Actor: "a"}})
	wants(t, "order", err, &pawl.Error{Kind: pawl.Conflict, Message: "service db is already running: the cause", Hint: "restart it"})
	missing := &pawl.Error{Kind: pawl.NotFound, Message: `there is no service "wbe"`, Hint: "did you mean: web"}
	_, err = c.Service(ctx, "wbe")
	wants(t, "service", err, missing)
	wants(t, "logs", c.Logs(ctx, "wbe", LogQuery{Follow: true}, io.Discard), missing)

	var b bytes.Buffer
	err = c.Logs(ctx, "db", LogQuery{Tail: 1}, &b)
	wants(t, "after the first line", err, &pawl.Error{Kind: pawl.Unavailable, Message: "the disk is gone", Hint: "mount it"})
	if b.String() != "db 1\n" {
		t.Errorf("logs: %q", b.String())
	}
	for _, id := range []string{"", ".", "..", strings.Repeat("x", 1<<20)} {
		if _, err := c.Service(ctx, id); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("service %.10q: %v; want an error of kind NotFound", id, err)
		}
	}
}

func wants(t *testing.T, what string, err error, want *pawl.Error) {
	t.Helper()
	var got *pawl.Error
	errors.As(err, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// An invalid request is refused, and the next one is served.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	l, _ := serve(t, dir, &fake{})
	long := strings.Repeat("x", maxID+1)
	for request, want := range map[string]string{
		"GET /v1/services/" + long + " HTTP/1.0\r\n\r\n":               " 400 ",
		"GET /v1/services/web/logs?tail=x HTTP/1.0\r\n\r\n":            " 400 ",
		"POST /v1/reload HTTP/1.0\r\nContent-Length: 4\r\n\r\nnull":    " 400 ",
		"POST /v1/reload HTTP/1.0\r\nContent-Length: 1\r\n\r\n{":       " 400 ",
		"GET /v2 HTTP/1.0\r\n\r\n":                                     " 404 ",
		"DELETE /v1/services/web HTTP/1.0\r\n\r\n":                     " 404 ",
		"GET /" + strings.Repeat("y", 2*maxBody) + " HTTP/1.0\r\n\r\n": " 431 ",
		"nonsense\r\n\r\n": " 400 ",
		"GET /v1/services/../../etc/passwd HTTP/1.0\r\n\r\n":                       " 30",
		"GET /v1/services/web HTTP/1.0\r\n\r\n":                                    " 200 ",
		"POST /v1/services/web/order HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}":      " 400 ",
		"GET /v1/services/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.0\r\n\r\n":         " 404 ",
		"POST /v1/services/web/order HTTP/1.0\r\nContent-Length: 9\r\n\r\n[1,2,3]": "",
	} {
		if got := raw(t, l.Path(), request); !strings.Contains(got, want) {
			t.Errorf("%.60q: %.200q; want%s", request, got, want)
		}
	}
}

// raw sends a request as it is and returns what comes back.
func raw(t *testing.T, path, request string) string {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, request) // the host may hang up before it is whole
	if u := c.(*net.UnixConn); u.CloseWrite() != nil {
		return ""
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

// Followers get each line when it is printed, and end when they want to, when the
// host does, and when it dies.
func TestFollowing(t *testing.T) {
	t.Parallel()
	dir, lines, left := folder(t), make(chan string), make(chan struct{}, 2)
	f := &fake{follow: func(ctx context.Context, w io.Writer) error {
		defer func() { left <- struct{}{} }()
		for {
			select {
			case l := <-lines:
				if _, err := io.WriteString(w, l); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}}
	_, stop := serve(t, dir, f)
	c := connect(t, dir, "shop")
	follow := func(ctx context.Context) (got *io.PipeReader, ended chan error) {
		r, w := io.Pipe()
		ended = make(chan error, 1)
		go func() { ended <- c.Logs(ctx, "web", LogQuery{Follow: true}, w) }()
		return r, ended
	}
	next := func(r io.Reader, want string) {
		t.Helper()
		lines <- want
		b := make([]byte, len(want))
		if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
			t.Errorf("%q, %v; want %q", b, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, ended := follow(ctx)
	next(r, "one\n")
	next(r, "two\n")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("who has enough: %v", err)
	}
	<-left // the host learns of it
	r, ended = follow(t.Context())
	next(r, "three\n")
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the host has ended in good order: %v", err)
	}
}

// A follower that reads nothing keeps neither others waiting nor the host from
// ending.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	dir, full := folder(t), make(chan struct{})
	f := &fake{follow: func(ctx context.Context, w io.Writer) error {
		page := bytes.Repeat([]byte("x"), 1<<20)
		for i := 0; ; i++ {
			if i == 1 {
				close(full)
			}
			if _, err := w.Write(page); err != nil {
				return err
			}
		}
	}}
	l, stop := serve(t, dir, f)
	socket, err := net.Dial("unix", l.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	_ = socket.(*net.UnixConn).SetReadBuffer(1 << 10)
	go func() { _, _ = io.CopyN(io.Discard, socket, 1<<20) }()
	_, _ = io.WriteString(socket, "GET /v1/services/web/logs?follow=true HTTP/1.1\r\nHost: pawl\r\n\r\n")
	<-full
	if _, err := connect(t, dir, "shop").Services(t.Context()); err != nil {
		t.Errorf("beside it: %v", err)
	}
	stop()
	if _, err := os.Stat(l.Path()); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "shop.lock")); !os.IsNotExist(err) {
		t.Errorf("the lock is still there: %v", err)
	}
}
