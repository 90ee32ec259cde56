package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

func TestPackages(t *testing.T) {
	t.Parallel()
	got, err := packages(strings.NewReader(`File: drainprofile
Type: cpu
Duration: 1.2s, Total samples = 90000us (75.00%)
      flat  flat%   sum%        cum   cum%
   30000us 33.33% 33.33%    50000us 55.56%  github.com/pawl-dev/pawl/internal/store/postgres.(*DB).Claim
   20000us 22.22% 55.56%    20000us 22.22%  runtime.mallocgc
   10000us 11.11% 66.67%    10000us 11.11%  memeqbody
   10000us 11.11% 77.78%    10000us 11.11%  internal/runtime/syscall/linux.Syscall6
    5000us  5.56% 83.33%     5000us  5.56%  github.com/pawl-dev/pawl/internal/store/postgres.scan[go.shape.struct { github.com/x/y.Z }]
    5000us  5.56% 88.89%     5000us  5.56%  slices.insertionSort[...] (inline)
         0     0% 88.89%    90000us   100%  main.main
`))
	want := []part{{"internal/store/postgres", 35 * time.Millisecond, 0}, {"runtime", 30 * time.Millisecond, 0}, {"system calls", 10 * time.Millisecond, 0}, {"slices", 5 * time.Millisecond, 0}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := packages(strings.NewReader("nothing\n")); err == nil {
		t.Error("a text without a table is no error")
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	entry := func(kind, user, system, sql string) string {
		return "2026-01-02 03:04:05.678 UTC [12] LOG:  " + kind + " STATISTICS\n" +
			"2026-01-02 03:04:05.678 UTC [12] DETAIL:  ! system usage stats:\n" +
			"\t!\t" + user + " s user, " + system + " s system, 9.000000 s elapsed\n" +
			"\t!\t[7.000000 s user, 7.000000 s system total]\n\t!\t1234 kB max resident size\n" +
			"2026-01-02 03:04:05.678 UTC [12] STATEMENT:  " + sql + "\n"
	}
	got, err := readStatements(strings.NewReader(
		entry("PARSE MESSAGE", "0.000100", "0.000000", "update step\n\t  set state = $1") +
			entry("EXECUTE MESSAGE", "0.001000", "0.000500", "update step\n\t  set state = $1") +
			"2026-01-02 03:04:05.678 UTC [13] LOG:  checkpoint starting: time\n" +
			entry("EXECUTE MESSAGE", "0.000200", "0.000000", "commit") +
			entry("EXECUTE MESSAGE", "0.001000", "0.000000", "update step\n\t  set state = $1")))
	want := []part{{"update step set state = $1", 2600 * time.Microsecond, 2}, {"commit", 200 * time.Microsecond, 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if rest := withRest(got, 3*time.Millisecond); rest[2].cpu != 200*time.Microsecond {
		t.Errorf("%v: want 200 µs outside of statements", rest[2])
	}
	if l := limited(got, 1); len(l) != 2 || l[1].name != "1 others" || l[1].cpu != 200*time.Microsecond {
		t.Errorf("limited to 1: %v", l)
	}
}

// TestPostgresStatements: a real server logs statistics of the statements of a drain.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	if err := pgtest.Install(os.Stderr); err != nil {
		t.Fatal(err)
	}
	cluster, err := pgtest.Start(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Stop()
	p := &profiler{dir: t.TempDir(), jobs: 200}
	parts, err := p.statements(t.Context(), cluster.URL)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(parts, func(p part) bool { return strings.HasPrefix(p.name, "insert into audit ") })
	if i < 0 || parts[i].cpu == 0 || parts[i].calls == 0 {
		t.Errorf("want the time and the calls of the insertion into audit: %v", parts)
	}
}
