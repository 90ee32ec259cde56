package main

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// closing is a database in memory whose end fails.
type closing struct{ bench.Target }

type stuck struct{ store.Store }

var errStuck = errors.New("stuck")

func (s stuck) Close() error { return errors.Join(s.Store.Close(), errStuck) }

func (closing) Open(ctx context.Context, c bench.Crew) (*bench.Pawl, error) {
	db, err := sqlite.Open(ctx, sqlite.Config{Path: ":memory:"})
	if err != nil {
		return nil, err
	}
	return bench.NewPawl(bench.PawlConfig{Store: stuck{db}, Crew: bench.Crew{Workers: 1}}), nil
}

// TestAnEndThatFails is an error: closing checks that all jobs have ended.
func TestAnEndThatFails(t *testing.T) {
	t.Parallel()
	p := &profiler{jobs: 100}
	err := p.drain(t.Context(), closing{}, func(drain func() error) error { return drain() })
	if !errors.Is(err, errStuck) {
		t.Errorf("%v, want %v", err, errStuck)
	}
}
