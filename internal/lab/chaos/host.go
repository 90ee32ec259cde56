package main

import (
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// A host is what has a wall clock, and the processes on it. On PostgreSQL each
// process is on one of its own, and what counts is the clock of the database. On
// SQLite all are on one, whose clock is that of the database.
type host struct {
	steps bool // its clock may be stepped

	mu     sync.Mutex // guards what follows; held while a process starts
	ahead  time.Duration
	jumps  []jump // of ahead, oldest first
	clocks []*clock
}

// A jump is from when on a clock is so far ahead of the right one.
type jump struct {
	at    time.Time
	ahead time.Duration
}

func newHost(steps bool) *host { return &host{steps: steps, jumps: []jump{{at: time.Now()}}} }

// start starts a process on the host, and closes exited when it has ended.
func (h *host) start(cmd *exec.Cmd, exited chan struct{}) error {
	if !h.steps {
		return startPinned(cmd, exited, func(int) error { return nil })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	traced(cmd)
	return startPinned(cmd, exited, func(pid int) error {
		c, err := newClock(pid, h.ahead)
		if err == nil {
			h.clocks = append(h.clocks, c)
		}
		return err
	})
}

// step has the clock jump, for whatever runs on the host and will.
func (h *host) step(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
	h.jumps = append(h.jumps, jump{time.Now(), h.ahead})
	var alive []*clock
	for _, c := range h.clocks {
		if c.set(h.ahead) != nil {
			c.close() // its process has ended
			continue
		}
		alive = append(alive, c)
	}
	h.clocks = alive
}

// now is the time by the clock of the host.
func (h *host) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// setBack is when the clock was last set back.
func (h *host) setBack() (last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.jumps[1:] {
		if j := h.jumps[i+1]; j.ahead < h.jumps[i].ahead {
			last = j.at
		}
	}
	return last
}

// close forgets the processes.
func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.clocks {
		c.close()
	}
	h.clocks = nil
}

// edge is how far a reading may lie outside of the time for which a clock went so:
// a jump takes a moment.
const edge = 100 * time.Millisecond

// moments returns when the clock of the host may have shown a time: never, once, or
// more often if it was set back.
func (h *host) moments(shown int64) (all []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, j := range h.jumps {
		until := time.Now()
		if i+1 < len(h.jumps) {
			until = h.jumps[i+1].at
		}
		at := pawl.Time(shown).Add(-j.ahead)
		if !at.Before(j.at.Add(-edge)) && !at.After(until.Add(edge)) {
			all = append(all, pawl.Micros(at))
		}
	}
	return all
}

// moment returns when an entry of a trail was written, if the clock of its times can
// tell: one that was set back may have shown a time twice, and no entry is older than
// the one before it, whatever the clock shows.
func (h *host) moment(shown, before int64) (at int64, ok bool) {
	all := h.moments(shown)
	if len(all) != 1 || shown == before && h.fellBehind(shown, all[0]) {
		return 0, false
	}
	return all[0], true
}

// fellBehind reports whether the clock was set back behind a time that it showed at a
// moment.
func (h *host) fellBehind(shown, moment int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.jumps, func(j jump) bool {
		return pawl.Micros(j.at) > moment && pawl.Micros(j.at.Add(j.ahead)) < shown
	})
}

// canStep returns why the clock of a process cannot be stepped here, or nil.
func canStep() error {
	h := newHost(true)
	defer h.close()
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.SysProcAttr = attributes()
	exited := make(chan struct{})
	if err := h.start(cmd, exited); err != nil {
		return err
	}
	<-exited
	return nil
}
