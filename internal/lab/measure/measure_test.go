package measure_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/measure"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

func plan(t *testing.T) measure.Plan {
	t.Helper()
	return measure.Plan{Only: []string{"drain"}, Stores: []string{sqlite.Normal}, Dir: t.TempDir(), Rounds: 1, Log: slog.New(slog.DiscardHandler),
		Sizes:    bench.Sizes{Jobs: 50, Graphs: 1, FanOuts: 1, Samples: 1, Idle: time.Microsecond, Rate: 1000, Sustain: time.Millisecond},
		Progress: func(string, string) {}}
}

// TestQuestions asks each of the three questions in small.
func TestQuestions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		ask         func(*measure.Plan)
		table, json string
		files       int // databases that were made
	}{
		{"speed", func(*measure.Plan) {}, bench.Drained, `"results"`, 1},
		{"crews", func(p *measure.Plan) { p.Workers = []int{1, 2} }, "50 jobs worked off by workers in this process", `"workers":2`, 1},
		{"filled", func(p *measure.Plan) { p.Fill = bench.Fill{Finished: 10, Waiting: 2} }, "filled with 10 finished and 2 waiting jobs against empty", `"ratios"`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan(t)
			tt.ask(&p)
			r, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var table strings.Builder
			if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), tt.table) {
				t.Errorf("%v, want %q in\n%s", err, tt.table, table.String())
			}
			text, err := json.Marshal(r)
			if err != nil || !strings.Contains(string(text), tt.json) {
				t.Errorf("%v, want %s in %s", err, tt.json, text)
			}
			made, err := os.ReadDir(p.Dir)
			databases := 0
			for _, e := range made {
				if strings.HasSuffix(e.Name(), ".db") {
					databases++
				}
			}
			if err != nil || databases != tt.files {
				t.Errorf("%v, %d databases: want %d", err, databases, tt.files)
			}
		})
	}
}

// TestNoPostgres: a server that is not there is told from every other failure.
func TestNoPostgres(t *testing.T) {
	t.Parallel()
	p := plan(t)
	p.Stores, p.URL = nil, "postgres://127.0.0.1:1/nothing"
	_, err := p.Run(t.Context())
	var away measure.ConnectError
	if !errors.As(err, &away) {
		t.Errorf("%v: want a ConnectError", err)
	}
}
