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

// listen makes the socket of a run, if one of its probes has need of it.
func (w *ward) listen(r *run) error {
	if !hears(r.program.Ready) && !hears(r.program.Alive) {
		return nil
	}
	c := process.NotifyConfig{Path: w.keeper.socket(w.id), Got: func(n process.Notice) { w.said(r, n) }}
	var err error
	if r.program.User != "" {
		if c.User, err = process.Lookup(r.program.User, r.program.Group); err != nil {
			return err
		}
		if err := os.Chmod(w.keeper.config.State, 0o711); err != nil { // that it may come to the socket
			return err
		}
	}
	r.kick = make(chan struct{}, 1)
	r.notify, err = process.ListenNotify(c)
	return err
}

// hears reports whether the program answers the probe by messages.
func hears(p *spec.Probe) bool { return p != nil && p.Notify }

// socket answers the path of a program's socket. Ids are too long to be in it.
func (k *Keeper) socket(id string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return filepath.Join(k.config.State, fmt.Sprintf("%016x.notify", h.Sum64()))
}

// said takes what the program says of itself.
func (w *ward) said(r *run, n process.Notice) {
	w.mu.Lock()
	ready, alive := r.ready, r.alive
	if n.Status != nil {
		r.status = *n.Status
	}
	w.mu.Unlock()
	if n.Ready && ready != nil && ready.of.Notify {
		w.answered(r, ready, nil)
	}
	if n.Watchdog && alive != nil && alive.of.Notify {
		w.answered(r, alive, nil)
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
	if n.Status != nil {
		w.keeper.tell(w.id)
	}
}

// watchdog waits for a silence that is too long.
func (w *ward) watchdog(ctx context.Context, r *run, p *probe) {
	timer := time.NewTimer(p.of.Timeout)
	defer timer.Stop()
	for {
		select {
		case <-r.kick:
			timer.Reset(p.of.Timeout)
		case <-timer.C:
			w.answered(r, p, fmt.Errorf("no WATCHDOG=1 within %s", short(p.of.Timeout)))
			return
		case <-ctx.Done():
			return
		}
	}
}
