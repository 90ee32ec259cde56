// Package doctor examines a database as "pawl doctor" does: first the database and its server,
// then, if it can be read, the work in it. Package health holds the checks and judges them;
// the stores measure.
//
// Begin to read at [Doctor.Findings].
package doctor

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/privatejob"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Doctor examines one database.
type Doctor struct {
	// Diagnose checks the database and its server. It needs no schema.
	Diagnose func(ctx context.Context) []health.Finding
	// Open opens the database. The caller calls done.
	Open func(ctx context.Context) (s store.Store, cl *client.Client, done func() error, err error)
}

// A snapshotter is a store that measures the work in it.
type snapshotter interface {
	WorkSnapshot(ctx context.Context) (*health.Snapshot, error)
}

var (
	_ snapshotter = (*postgres.DB)(nil)
	_ snapshotter = (*sqlite.DB)(nil)
)

// Findings returns what the doctor found. If the work cannot be read, that is a finding too.
func (d *Doctor) Findings(ctx context.Context) []health.Finding {
	found := d.Diagnose(ctx)
	if slices.ContainsFunc(found, unusable) {
		return found
	}
	work, err := d.examine(ctx)
	if err != nil {
		r := &health.Diagnosis{Findings: found}
		r.Unusable(err)
		return r.Findings
	}
	return append(found, work...)
}

// unusable reports whether a finding means that the work cannot be read.
func unusable(f health.Finding) bool {
	return f.Severity != health.OK && (f.Check == "database" || f.Check == "schema_version")
}

// Jobs without a change for stuckFor are examined, at most stuckLimit of them.
const (
	stuckFor   = 10 * time.Minute
	stuckLimit = 200
)

// examine judges the work in the database.
func (d *Doctor) examine(ctx context.Context) (found []health.Finding, err error) {
	s, cl, done, err := d.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := done(); err == nil {
			err = e
		}
	}()
	w, err := s.(snapshotter).WorkSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	if err := secrets(ctx, s, w); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n *pawl.Node) bool { return n.Host == host && privatejob.ProcessGone(n.PID) })
	stuck, err := cl.Inspect.Stuck(ctx, pawl.JobQuery{Limit: stuckLimit}, stuckFor)
	if err != nil {
		return nil, err
	}
	return health.Examine(w, stuck), nil
}

// secrets counts the secrets of webhooks by the key that encrypts them, and finds the webhooks that
// are blocked.
func secrets(ctx context.Context, s store.Store, into *health.Snapshot) error {
	const page = 100
	into.Secrets = map[string]int{}
	for before := rowkey.Webhook(0); ; {
		list, err := s.Webhooks(ctx, before, page)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, w := range list {
			before = w.Key()
			for _, stored := range [][]byte{w.Secret, w.Former} {
				if !keyring.IsNone(stored) {
					into.Secrets[keyring.KeyOf(stored)]++
				}
			}
			if w.State != lifecycle.WebhookActive {
				continue
			}
			p, err := s.WebhookPlace(ctx, w.Key())
			if err != nil {
				return err
			}
			if p.Blocked() {
				into.Blocked = append(into.Blocked, health.Blocked{Webhook: w.Name, Why: strings.TrimPrefix(p.Error, "webhook "+w.Name+": ")})
			}
		}
	}
}
