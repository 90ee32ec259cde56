package programs

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// listen creates the notify socket of a run, if one of its probes uses it.
func (prog *program) listen(r *run) error {
	if !usesNotify(r.spec.Ready) && !usesNotify(r.spec.Alive) {
		return nil
	}
	c := process.NotifyConfig{Path: prog.manager.socket(prog.id), OnNotice: func(n process.Notice) { prog.onNotice(r, n) }}
	var err error
	if r.spec.User != "" {
		if c.User, err = process.Lookup(r.spec.User, r.spec.Group); err != nil {
			return err
		}
		if err := os.Chmod(prog.manager.config.State, 0o711); err != nil { // so that the user can reach the socket
			return err
		}
	}
	r.watchdogPing = make(chan struct{}, 1)
	r.notify, err = process.ListenNotify(c)
	return err
}

// usesNotify reports whether the program reports to the probe by messages.
func usesNotify(p *spec.Probe) bool { return p != nil && p.Notify }

// socket returns the path of a program's socket. It has a hash in place of the id, since
// the path of a socket must be short.
func (m *Manager) socket(id string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return filepath.Join(m.config.State, fmt.Sprintf("%016x.notify", h.Sum64()))
}

// onNotice handles a message that the program has sent to its socket.
func (prog *program) onNotice(r *run, n process.Notice) {
	prog.mu.Lock()
	ready, alive := r.ready, r.alive
	if n.Status != nil {
		r.status = *n.Status
	}
	prog.mu.Unlock()
	if n.Ready && ready != nil && ready.spec.Notify {
		prog.recordResult(r, ready, nil)
	}
	if n.Watchdog && alive != nil && alive.spec.Notify {
		prog.recordResult(r, alive, nil)
		select {
		case r.watchdogPing <- struct{}{}:
		default:
		}
	}
	if n.Status != nil {
		prog.manager.notifyChanged(prog.id)
	}
}

// watchdog fails the alive probe when no WATCHDOG=1 has arrived for its timeout.
func (prog *program) watchdog(ctx context.Context, r *run, p *probe) {
	timer := time.NewTimer(p.spec.Timeout)
	defer timer.Stop()
	for {
		select {
		case <-r.watchdogPing:
			timer.Reset(p.spec.Timeout)
		case <-timer.C:
			prog.recordResult(r, p, fmt.Errorf("no WATCHDOG=1 within %s", short(p.spec.Timeout)))
			return
		case <-ctx.Done():
			return
		}
	}
}
