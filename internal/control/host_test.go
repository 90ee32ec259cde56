package control

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A fake is a host with the services db and web, and the order that it got last.
type fake struct {
	follow func(ctx context.Context, w io.Writer) error
	reload func(c pawl.Change) ([]Difference, error)
	stall  func() // History calls it and waits for the end of its context

	mu    sync.Mutex // guards what follows
	order Order
}

func (f *fake) Services() []Service {
	db, _ := f.Service("db")
	web, _ := f.Service("web")
	return []Service{db, web}
}

func (f *fake) Service(id string) (Service, error) {
	switch id {
	case "db", "web", "a b/ü?#%":
		return Service{ID: id, Host: "shop", State: "running", Phase: lifecycle.ServiceRunning, Since: time.Unix(1, 0).UTC(), Why: []string{}, Wanted: "running", PID: 7}, nil
	}
	return Service{}, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no service %.40q", id), Hint: "did you mean: web"}
}

func (f *fake) History(ctx context.Context, id string) ([]pawl.Transition, error) {
	if f.stall != nil {
		f.stall()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := f.Service(id)
	return []pawl.Transition{{Entity: "sv_" + id, Sequence: 1, To: lifecycle.ServiceStopped, Event: lifecycle.ServiceAdd, Actor: "supervisor", At: 1}}, err
}

func (f *fake) Order(_ context.Context, id string, o Order) error {
	if id == "db" {
		return &pawl.Error{Kind: pawl.Conflict, Message: "service db is already running", Hint: "restart it", Err: fmt.Errorf("the cause")}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = o
	_, err := f.Service(id)
	return err
}

func (f *fake) Check(id string, v Verb) error {
	if v == Stop {
		return pawl.Errorf(pawl.Refused, "%s stays", id)
	}
	return nil
}

func (f *fake) last() Order {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.order
}

func (f *fake) Logs(ctx context.Context, id string, q LogQuery, w io.Writer) error {
	if q.Follow {
		return f.follow(ctx, w)
	}
	if _, err := fmt.Fprintf(w, "%s %d\n", id, q.Tail); err != nil {
		return err
	}
	if id == "db" {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the disk is gone", Hint: "mount it"}
	}
	return nil
}

func (f *fake) Reload(_ context.Context, c pawl.Change) ([]Difference, error) {
	if f.reload == nil {
		return nil, nil
	}
	return f.reload(c)
}

// folder returns a folder for sockets; that of the test may have too long a name.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run")
}

// serve serves a host called shop until the test ends, or stop is called.
func serve(t *testing.T, dir string, h Host) (l *Listener, stop func()) {
	t.Helper()
	l, err := Listen(dir, About{Name: "shop", Role: "supervisor"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx, h, slog.New(slog.DiscardHandler)) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return l, stop
}

func connect(t *testing.T, dir, name string) *Client {
	t.Helper()
	c, err := Connect(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
