package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
)

// prober asks over HTTP: no proxy, no redirects, and each time on a connection of
// its own, as a new client comes.
var prober = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// askHTTP succeeds when the status is 200 to 399.
func askHTTP(ctx context.Context, address string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	q.Header.Set("User-Agent", "pawl")
	a, err := prober.Do(q)
	if err != nil {
		return cause(err)
	}
	defer a.Body.Close()
	if a.StatusCode < 200 || a.StatusCode > 399 {
		return fmt.Errorf("status %s", a.Status)
	}
	return nil
}

// askTCP succeeds when a connection is accepted.
func askTCP(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return cause(err)
	}
	return c.Close()
}

// cause answers the error of the system call, where people know the rest already.
func cause(err error) error {
	var number syscall.Errno
	var asked *url.Error
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &asked):
		return asked.Err
	}
	return err
}

// askCommand runs a command as the program is run, and kills all of it when ctx
// ends.
func (w *ward) askCommand(ctx context.Context, r *run, p *probe) error {
	spec, err := w.commandSpec(r, p.of.Command)
	if err != nil {
		return err
	}
	spec.Mark = w.keeper.mark(w.id) + "!" + p.Kind
	said := &tail{}
	spec.Stdout, spec.Stderr = said, said
	proc, err := w.keeper.launch(spec)
	if err != nil {
		return err
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		proc.Stop(dead, syscall.SIGKILL, 0)
		<-proc.Done()
		return ctx.Err()
	}
	if e := proc.Exit(); e.Code != 0 {
		return said.explain(exitText(e))
	}
	return nil
}

// maxSaid is how much is kept of what a probe's command prints.
const maxSaid = 300

// A tail keeps the end of what is printed.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - maxSaid; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

// explain adds the last line to an error.
func (t *tail) explain(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	if last := strings.ToValidUTF8(string(lines[len(lines)-1]), "?"); last != "" {
		return fmt.Errorf("%s: %s", text, last)
	}
	return errors.New(text)
}
