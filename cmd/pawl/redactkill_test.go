package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

const secretive = `name: secretive
inputs: {secret: {required: true}}
steps:
  - {id: each, foreach: "${{ map(1..150, inputs.secret) }}", parallel: 50, env: {S: "${{ item }}"}, run: 'echo "$S"; echo "$S" >&2', output: text}
output: ${{ steps.each.output }}
`

// TestKilledRedactionsAreFinished: a redaction that is killed with signal 9, at any
// moment and several times, leaves a trail in order, and a server finishes it (K6, T5).
func TestKilledRedactionsAreFinished(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "pawl.db")
		killRedactions(t, "sqlite://"+path, func() bool {
			files, err := filepath.Glob(path + "*")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte("s3cret")) {
					return true
				}
			}
			return false
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		killRedactions(t, url, func() bool { return inTables(t, url, "s3cret") })
	})
}

// inTables reports whether a text is in a row of a database.
func inTables(t *testing.T, url, text string) bool {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	found := false
	for _, table := range []string{"job", "step", "audit", "signal", "refusal", "log"} {
		there := false
		// PostgreSQL writes bytes as digits.
		err := conn.QueryRow(ctx, "select exists (select 1 from "+table+" t where t::text like '%' || $1 || '%' or t::text like '%' || encode($1::bytea, 'hex') || '%')", text).Scan(&there)
		if err != nil {
			t.Fatal(err)
		}
		found = found || there
	}
	return found
}

func killRedactions(t *testing.T, database string, left func() bool) {
	t.Helper()
	f := newFleet(t, database)
	file := filepath.Join(f.dir, "secretive.yaml")
	if err := os.WriteFile(file, []byte(secretive), 0o600); err != nil {
		t.Fatal(err)
	}
	f.say("run", file, "-i", "secret=s3cret", "-o", "json")
	var jobs []struct {
		ID string `json:"id"`
	}
	f.parse(&jobs, "jobs", "-o", "json")
	args := []string{"--database", database, "job", "redact", jobs[0].ID, "--reason", "a token", "--request-id", "r-1"}
	kills := 0
	for begun := false; kills < 4; kills++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+rand.IntN(250))*time.Millisecond) // the context kills with signal 9
		err := exec.CommandContext(ctx, f.bin, args...).Run()
		cancel()
		f.say("audit", "verify")
		begun = begun || strings.Contains(f.say("job", "show", jobs[0].ID, "-o", "json"), `"event": "redact"`)
		if err == nil || kills >= 1 && begun {
			break
		}
	}
	t.Logf("killed %d times; there is something left: %v", kills, left())
	if !strings.Contains(f.say("job", "show", jobs[0].ID, "-o", "json"), `"event": "redact"`) {
		f.say(args[2:]...)
	}
	f.start("server")
	f.until("nothing is left", func() bool { return !left() })
	f.say("audit", "verify")
	if n := strings.Count(f.say("job", "show", jobs[0].ID, "-o", "json"), `"event": "redact"`); n != 1 {
		t.Errorf("%d redact entries of one request, want 1", n)
	}
}
