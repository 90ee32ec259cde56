package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/lab/sqlitetest"
)

const (
	eventsRound = 4000 // jobs of each audience, before it is the next one's turn
	eventsPart  = 1000 // jobs whose events have to be passed on before the next ones are submitted: the ring has room for them
	eventsBatch = 200  // steps of an exchange
	eventsOfJob = 8    // of one step
)

// An audience is who reads the events of a database.
type audience struct {
	name    string
	streams int    // over HTTP, of everything
	webhook string // the event of jobs that a webhook sends; empty: there is none
	sends   int    // messages for each job
	silent  bool   // the database keeps no feed
}

// The audiences. Each list begins with the one with which the others are compared.
var (
	writing = []audience{{name: "no feed", silent: true}, {name: "nobody"}}
	reading = []audience{
		{name: "nobody"},
		{name: "1 stream", streams: 1},
		{name: "10 streams", streams: 10},
		{name: "webhook, nothing to send", webhook: "error"},
		{name: "webhook, a message a job", webhook: "success", sends: 1},
	}
)

// BenchmarkEvents measures what events cost jobs of one step that do nothing, from their submission to
// their end: for each audience the CPU time of this process, which has the engine and the server, and of
// PostgreSQL. The readers are other processes, and not counted. The audiences take turns, and each is
// compared with the first one in the same round; the figures are the medians of the rounds. That nobody
// reads is compared with a database that is made to drop the rows of the feed.
func BenchmarkEvents(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		benchmarkEvents(b, func(a *audience) (*site, func() contest.CPU) {
			where := sqlitetest.Copy(b)
			if a.silent {
				execSQLite(b, where, "DROP TABLE feed")
				execSQLite(b, where, "CREATE VIEW feed AS SELECT 0 AS pos, 0 AS at, x'' AS rows WHERE 0")
				execSQLite(b, where, "CREATE TRIGGER unwritten INSTEAD OF INSERT ON feed BEGIN SELECT 1; END")
			}
			return newSiteOn(b, where), func() contest.CPU { return contest.Used(0) }
		})
	})
	b.Run("postgres", func(b *testing.B) {
		benchmarkEvents(b, func(a *audience) (*site, func() contest.CPU) {
			s := newSiteOn(b, pgtest.URL(b))
			conn, err := pgx.Connect(b.Context(), s.where)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = conn.Close(context.Background()) })
			if a.silent {
				if _, err := conn.Exec(b.Context(), "create rule unwritten as on insert to feed do instead nothing"); err != nil {
					b.Fatal(err)
				}
			}
			postmaster := contest.Postmaster(int(conn.PgConn().PID()))
			return s, func() contest.CPU { return contest.Used(postmaster) }
		})
	})
}

func execSQLite(b *testing.B, path, statement string) {
	b.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		b.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(conn, statement, nil)
	if closed := conn.Close(); err != nil || closed != nil {
		b.Fatal(err, closed)
	}
}

func benchmarkEvents(b *testing.B, open func(*audience) (*site, func() contest.CPU)) {
	b.Run("writing", func(b *testing.B) { benchmarkAudiences(b, writing, open) })
	b.Run("reading", func(b *testing.B) { benchmarkAudiences(b, reading, open) })
}

func benchmarkAudiences(b *testing.B, audiences []audience, open func(*audience) (*site, func() contest.CPU)) {
	if b.N < eventsRound { // package testing begins with 1
		return
	}
	crowd := make([]*attended, len(audiences))
	for i := range audiences {
		crowd[i] = attend(b, &audiences[i], open)
		crowd[i].run(eventsPart) // the first jobs do more, such as the start of the worker
	}
	b.ResetTimer()
	for left, round := b.N, 0; left > 0; left, round = left-eventsRound, round+1 {
		turns := slices.Clone(crowd)
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, a := range turns {
			a.costs = append(a.costs, a.run(eventsRound))
		}
	}
	b.StopTimer()
	fmt.Print("\n", eventsTable(crowd))
}

// An eventsCost is what a job has cost.
type eventsCost struct{ client, server, seconds float64 } // CPU time in microseconds; the time of the round for each job

func (c eventsCost) cpu() float64 { return c.client + c.server }

// eventsTable shows what the audiences cost.
func eventsTable(crowd []*attended) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AUDIENCE\tJOBS/S\tCLIENT µs\tSERVER µs\tMORE µs\tMORE %\tOF THE ROUNDS")
	first := crowd[0]
	whole := first.median(eventsCost.cpu) / 100
	for _, a := range crowd {
		var more []float64
		for i, c := range a.costs {
			more = append(more, c.cpu()-first.costs[i].cpu())
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%.1f", a.name, 1/a.median(func(c eventsCost) float64 { return c.seconds }),
			a.median(func(c eventsCost) float64 { return c.client }), a.median(func(c eventsCost) float64 { return c.server }))
		if a != first {
			fmt.Fprintf(w, "\t%.1f\t%.1f\t%.1f to %.1f", median(more), median(more)/whole, slices.Min(more)/whole, slices.Max(more)/whole)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // to memory
	return text.String()
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// An attended is a site with an audience, and a worker.
type attended struct {
	*audience
	*hand
	site  *site
	used  func() contest.CPU
	got   *bufio.Reader // a line for every eventsPart jobs of which the streams have got all events
	costs []eventsCost
}

func (a *attended) median(of func(eventsCost) float64) float64 {
	var list []float64
	for _, c := range a.costs {
		list = append(list, of(c))
	}
	return median(list)
}

// attend opens a site, and waits until its audience is there.
func attend(b *testing.B, a *audience, open func(*audience) (*site, func() contest.CPU)) *attended {
	s, used := open(a)
	s.deliver = a.webhook != ""
	s.polls(3 * time.Second) // the default
	var got *bufio.Reader
	if a.streams > 0 {
		_, got = startAudience(b, readersOf, strconv.Itoa(a.streams)+" "+s.url+"/api/events")
	}
	streams := a.streams
	if a.webhook != "" {
		url, _ := startAudience(b, receiverOf, "1")
		s.want(201, "POST", "/api/webhooks", text(map[string]any{"name": "bench", "url": url, "machines": []string{"job"}, "events": []string{a.webhook}}))
		streams++
	}
	await(b, a.name+" reads", func() bool { return s.engine.Feed().Stats().Streams == int64(streams) })
	return &attended{audience: a, hand: newHand(b, s, s.engine, eventsBatch), site: s, used: used, got: got}
}

// run runs n jobs, a multiple of eventsPart, and returns what one has cost once the audience has got its events.
func (a *attended) run(n int) eventsCost {
	begun, before := time.Now(), a.used()
	for range n / eventsPart {
		sent, delivered := a.site.engine.Feed().Stats().Sent, a.site.engine.WebhookStats().Delivered
		a.submit(eventsPart)
		a.drain(eventsPart)
		await(a.b, a.name+" has its events", func() bool {
			f, w := a.site.engine.Feed().Stats(), a.site.engine.WebhookStats()
			if f.Gaps > 0 || w.Failed > 0 {
				a.b.Fatalf("%s: %+v, %+v", a.name, f, w)
			}
			return f.Sent >= sent+int64(a.streams*eventsOfJob*eventsPart) && w.Delivered >= delivered+int64(a.sends*eventsPart)
		})
		if a.got != nil { // what is sent is still to be written
			if _, err := a.got.ReadString('\n'); err != nil {
				a.b.Fatalf("%s: %v", a.name, err)
			}
		}
	}
	took, each := time.Since(begun).Seconds(), 1e6/float64(n)
	after := a.used()
	return eventsCost{(after.Client - before.Client) * each, (after.Server - before.Server) * each, took / float64(n)}
}

// await waits until figures of the process are right.
func await(b *testing.B, what string, right func() bool) {
	b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !right(); <-tick.C {
		if time.Now().After(deadline) {
			b.Fatalf("not within a minute: %s", what)
		}
	}
}

// By these variables of the environment this program is a part of an audience.
const (
	readersOf  = "PAWL_TEST_READERS"  // a number of streams, and the URL of the stream
	receiverOf = "PAWL_TEST_RECEIVER" // any value
)

// startAudience starts this program as a part of an audience, until the benchmark ends, and returns the
// first line that it writes, and the others.
func startAudience(b *testing.B, variable, value string) (first string, others *bufio.Reader) {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), program)
	cmd.Env = append(os.Environ(), variable+"="+value)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // it ends with its input
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = stdin.Close(), cmd.Wait() })
	others = bufio.NewReader(stdout)
	line, err := others.ReadString('\n')
	if err != nil {
		b.Fatalf("a part of the audience has said nothing: %v", err)
	}
	return strings.TrimSpace(line), others
}

// serveAudience is a part of an audience until its input ends, if the environment says so.
func serveAudience() bool {
	switch readers := os.Getenv(readersOf); {
	case readers != "":
		number, url, _ := strings.Cut(readers, " ")
		n, _ := strconv.Atoi(number)
		streams := make([]*bufio.Scanner, n)
		for i := range streams {
			streams[i] = openEvents(url)
		}
		fmt.Println("reading")
		go readEvents(streams)
	case os.Getenv(receiverOf) != "":
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		fmt.Println(s.URL)
	default:
		return false
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// openEvents opens a stream of events.
func openEvents(url string) *bufio.Scanner {
	r, err := http.Get(url)
	if err != nil || r.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, "the stream of events:", r, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// readEvents reads streams, keeps nothing of them, and writes a line whenever all have got as many events more
// as eventsPart jobs have. If one ends, so does the program.
func readEvents(streams []*bufio.Scanner) {
	for {
		var part sync.WaitGroup
		for _, lines := range streams {
			part.Go(func() {
				for left := eventsPart * eventsOfJob; left > 0; {
					if !lines.Scan() {
						fmt.Fprintln(os.Stderr, "a stream of events has ended:", lines.Err())
						os.Exit(1)
					}
					if lines.Text() == "event: transition" {
						left--
					}
				}
			})
		}
		part.Wait()
		fmt.Println("got them")
	}
}
