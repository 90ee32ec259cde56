package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/sleep"
)

// harm applies a fault to its victims, for as long as it lasts.
func (r *run) harm(ctx context.Context, f fault) error {
	switch f.Kind {
	case databaseFault:
		db := r.database.(*postgresDatabase)
		r.crash.Lock()
		defer r.crash.Unlock()
		held := r.everybody(ctx)
		at := time.Now()
		err := db.crash(ctx, f.For)
		r.report.away(time.Since(at))
		r.hurt(f, at, held)
		return err
	case fullFault:
		disk := r.database.(*sqliteDatabase).disk
		r.crash.Lock()
		defer r.crash.Unlock()
		if err := disk.fill(); err != nil {
			return fmt.Errorf("fill the disk: %w", err)
		}
		sleep.For(ctx, f.For)
		return disk.free()
	case cutAllFault:
		at := time.Now()
		for _, m := range r.members {
			m.proxy.cut()
		}
		r.hurt(f, at, r.everybody(ctx))
		return nil
	case killedOutage, stoppedOutage, cutOffOutage:
		return r.outage(ctx, f)
	case forwardFault, backFault, slipFault:
		r.jump(ctx, f, r.victim(ctx, f).host)
		return nil
	case rollFault:
		for _, m := range r.of(f.Role) {
			if err := r.befall(ctx, f, m); err != nil {
				return err
			}
			if err := r.up(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return r.befall(ctx, f, r.victim(ctx, f))
}

// jump makes a clock jump.
func (r *run) jump(ctx context.Context, f fault, h *host) {
	h.step(f.Step)
	if f.Kind == slipFault {
		sleep.For(ctx, f.For)
		h.step(-f.Step)
	}
}

// befall applies a fault to one process, after any fault already applied to it has ended.
func (r *run) befall(ctx context.Context, f fault, m *member) error {
	m.pain.Lock()
	defer m.pain.Unlock()
	at, pid := time.Now(), m.pid()
	switch f.Kind {
	case killFault:
		m.kill()
		r.hurtProcess(ctx, f, at, pid)
		sleep.For(ctx, f.For)
		return m.start()
	case restartFault, rollFault:
		if err := m.stop(30 * time.Second); err != nil {
			return err
		}
		return m.start()
	case pauseFault, freezeFault:
		m.signal(syscall.SIGSTOP)
		r.hurtProcess(ctx, f, at, pid)
		sleep.For(ctx, f.For-time.Since(at))
		m.signal(syscall.SIGCONT)
	case cutFault:
		m.proxy.cut()
		r.hurtProcess(ctx, f, at, pid)
	case deafFault:
		r.storm(ctx, f, m, weather{deaf: true})
	case slowFault:
		r.storm(ctx, f, m, weather{delay: 50 * time.Millisecond})
	case blackholeFault:
		r.storm(ctx, f, m, weather{hold: true})
	default:
		return fmt.Errorf("fault %q is not known", f.Kind)
	}
	return nil
}

// storm sets the weather between a process and the database for a while.
func (r *run) storm(ctx context.Context, f fault, m *member, w weather) {
	at := time.Now()
	m.proxy.set(w)
	r.hurtProcess(ctx, f, at, m.pid())
	sleep.For(ctx, f.For-time.Since(at))
	m.proxy.set(weather{})
}

// hurtProcess records the steps that a process held when it was hit.
func (r *run) hurtProcess(ctx context.Context, f fault, at time.Time, pid int) {
	held, _ := r.held(ctx) // unknown while the database is away
	r.hurt(f, at, held[pid])
}

// everybody returns all steps that are held.
func (r *run) everybody(ctx context.Context) (all []hand) {
	held, _ := r.held(ctx)
	for _, steps := range held {
		all = append(all, steps...)
	}
	return all
}

func (r *run) hurt(f fault, at time.Time, held []hand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range held {
		r.wounds = append(r.wounds, wound{h, at, f})
	}
}
