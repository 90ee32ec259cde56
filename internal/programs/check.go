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

// probeClient sends HTTP probes: without a proxy, without following redirects, and each on
// a connection of its own, like a new client.
var probeClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// checkHTTP succeeds if the status is 200 to 399.
func checkHTTP(ctx context.Context, address string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	q.Header.Set("User-Agent", "pawl")
	a, err := probeClient.Do(q)
	if err != nil {
		return rootCause(err)
	}
	defer a.Body.Close()
	if a.StatusCode < 200 || a.StatusCode > 399 {
		return fmt.Errorf("status %s", a.Status)
	}
	return nil
}

// checkTCP succeeds if a connection is accepted.
func checkTCP(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return rootCause(err)
	}
	return c.Close()
}

// rootCause returns the error of the system call, since the probe names the rest already.
func rootCause(err error) error {
	var number syscall.Errno
	var failed *url.Error
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &failed):
		return failed.Err
	}
	return err
}

// checkCommand runs a command in the environment of the program, and kills all its
// processes when ctx ends.
func (prog *program) checkCommand(ctx context.Context, r *run, p *probe) error {
	ps, err := prog.commandSpec(r, p.spec.Command)
	if err != nil {
		return err
	}
	ps.Mark = prog.manager.mark(prog.id) + "!" + p.Kind
	printed := &tailBuffer{}
	ps.Stdout, ps.Stderr = printed, printed
	proc, err := prog.manager.launch(ps)
	if err != nil {
		return err
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		proc.Stop(canceled, syscall.SIGKILL, 0)
		<-proc.Done()
		return ctx.Err()
	}
	if e := proc.Exit(); e.Code != 0 {
		return printed.explain(exitText(e))
	}
	return nil
}

// maxProbeOutput is how many bytes of the output of a probe's command are kept.
const maxProbeOutput = 300

// A tailBuffer keeps the last maxProbeOutput bytes that are written to it.
type tailBuffer struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - maxProbeOutput; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

// explain returns an error with the text and the last line of output.
func (t *tailBuffer) explain(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	if last := strings.ToValidUTF8(string(lines[len(lines)-1]), "?"); last != "" {
		return fmt.Errorf("%s: %s", text, last)
	}
	return errors.New(text)
}
