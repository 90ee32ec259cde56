package metrics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/feed"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/tracing"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape asks for the metrics as Prometheus does.
func scrape(t *testing.T, m *metrics.Metrics) (text string, families map[string]*dto.MetricFamily) {
	t.Helper()
	s := httptest.NewServer(m)
	defer s.Close()
	defer s.Client().CloseIdleConnections()
	r, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%s, %s, %v", r.Status, r.Header.Get("Content-Type"), err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), families
}

// An act is an action that does as it is told.
type act struct{}

func (act) Name() string                                  { return "begin" }
func (act) Execute(context.Context, supervisor.Run) error { return nil }

// busy returns metrics of which every one has something to say.
func busy(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := metrics.New("1.2.3")
	id, h := supervisor.Identity{ID: "web-17", Type: "program"}, m.Hooks()
	h.Transition(id, supervisor.Transition{FromPhase: lifecycle.ServiceStopped, ToPhase: lifecycle.ServiceTryingToStart})
	_, done := h.Action(t.Context(), id, supervisor.Run{Attempt: 2}, act{})
	done(supervisor.Attempt{Took: time.Second})
	h.Settled(id, supervisor.ActionStatus{ActionName: "begin", Kind: supervisor.KindTimeout})
	h.Settled(id, supervisor.ActionStatus{ActionName: "begin", Kind: supervisor.KindRetriable})
	h.Decided(id, time.Millisecond, time.Millisecond)
	h.Refused(id, errors.New("no"))
	h.Panicked(id, "Next", "a nil map", nil)
	h.Escalated(id, "look")
	m.Watch(func() supervisor.Stats {
		return supervisor.Stats{Services: map[machine.State]int{lifecycle.ServiceRunning: 3}, Abandoned: 1, OldestSeen: 2 * time.Second,
			Running: map[string]supervisor.Running{"begin": {Count: 1, Oldest: 4 * time.Second}}}
	}, func() []server.Count {
		return []server.Count{{Name: "evaluator", Alive: true, Starts: 2, Progress: server.Progress{Rounds: 7, Failures: 1, At: time.UnixMilli(1500)}}}
	})
	m.Request("submit-job", 201, true, time.Second)
	runs := m.Agent() // L11
	runs.Left("READY", time.Second)
	runs.Ended("ERROR", "no_space")
	runs.Failures("io", 2)
	first := &histogram.Histogram{}
	first.Record(2e6)
	for range 2 {
		runs.Objects("read", first, 1)
	}
	runs.Objects("create", nil, 3)
	attempt := m.Worker(10)(func(_ context.Context, t *worker.Task) worker.Result {
		switch t.Key {
		case "late":
			return worker.Result{Snooze: time.Second}
		case "bad":
			return worker.Result{Failure: &pawl.Failure{Permanent: t.Attempt > 1}}
		case "worse":
			panic("worse")
		}
		return worker.Result{}
	})
	for _, t := range []*worker.Task{{Key: "good"}, {Key: "late"}, {Key: "bad"}, {Key: "bad", Attempt: 2}, {Key: "worse"}} {
		func() {
			defer func() { _ = recover() }()
			t.Work = &workflow.Work{Kind: workflow.KindCommand}
			attempt(context.Background(), t)
		}()
	}
	limit := 4
	m.WatchDatabase(&database{
		counts: pawl.Counts{Jobs: map[machine.State]int{lifecycle.JobRunning: 2, lifecycle.JobFailed: 9}, Workers: map[machine.State]int{lifecycle.WorkerPaused: 1},
			Steps: map[machine.State]int{lifecycle.StepEnqueued: 5}},
		queues: []pawl.QueueView{{Name: "billing", Workspace: "shop", Depth: 5, Running: 3, Workers: 2, Limit: &limit, Oldest: pawl.Timestamp(7e6)}},
	}, func() time.Time { return time.Unix(10, 0) })
	m.WatchEvents(func() feed.Stats { return feed.Stats{Streams: 2, Sent: 7, Gaps: 1, Lag: 1500 * time.Millisecond} })
	m.WatchWebhooks(func() webhook.Stats {
		return webhook.Stats{Delivered: 5, Failed: 1, Active: 2, Failing: 1, Lag: time.Second}
	})
	controlled(m)
	m.WatchSpans(func() tracing.Stats { return tracing.Stats{Sent: 8, Dropped: 3} })
	return m
}

// A database says what it was told to.
type database struct {
	counts pawl.Counts
	queues []pawl.QueueView
	err    error
	read   int
}

func (d *database) Counts(context.Context, string) (*pawl.Counts, error) {
	d.read++
	return &d.counts, d.err
}

func (d *database) Queues(context.Context, string) ([]pawl.QueueView, error) { return d.queues, d.err }

// TestScrapesShareAReading: scrapes within a second read the database once, and later ones
// again (K7).
func TestScrapesShareAReading(t *testing.T) {
	m, db, now := metrics.New("1.2.3"), &database{}, time.Unix(10, 0)
	m.WatchDatabase(db, func() time.Time { return now })
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			now = now.Add(time.Second)
		}
		scrape(t, m)
		if db.read != want {
			t.Errorf("after scrape %d the database was read %d times, want %d", i+1, db.read, want)
		}
	}
}

// TestMetricsWithoutADatabase: a scrape that cannot read the database has all the others,
// and says so (K7).
func TestMetricsWithoutADatabase(t *testing.T) {
	m := metrics.New("1.2.3")
	m.WatchDatabase(&database{err: errors.New("down")}, time.Now)
	text, _ := scrape(t, m)
	for want, is := range map[string]bool{"\npawl_database_readable 0\n": true, "\npawl_build_info{": true, "\npawl_jobs{": false} {
		if strings.Contains(text, want) != is {
			t.Errorf("%q: want %v in\n%s", want, is, text)
		}
	}
}

// TestMetrics asks over HTTP for what the hooks and the gauges say, without a word of
// which service it was (K7, S12).
func TestMetrics(t *testing.T) {
	text, _ := scrape(t, busy(t))
	for _, want := range []string{
		`pawl_build_info{version="1.2.3"} 1`,
		`pawl_service_transitions_total{from="stopped",to="trying_to_start",type="program"} 1`,
		`pawl_service_action_retries_total{action="begin"} 1`,
		`pawl_service_action_timeouts_total{action="begin"} 1`,
		`pawl_service_action_duration_seconds_sum{action="begin"} 1`,
		`pawl_service_decision_wait_seconds_bucket{le="0.001"} 1`,
		`pawl_service_decision_wait_seconds_bucket{le="0.0001"} 0`,
		`pawl_service_refusals_total{type="program"} 1`,
		`pawl_service_panics_total{type="program",where="Next"} 1`,
		`pawl_service_escalations_total{type="program"} 1`,
		`pawl_services{phase="running"} 3`,
		`pawl_services{phase="failed"} 0`,
		`pawl_service_actions_running{action="begin"} 1`,
		`pawl_service_action_oldest_running_seconds{action="begin"} 4`,
		`pawl_service_actions_abandoned 1`,
		`pawl_service_observation_age_seconds 2`,
		`pawl_part_up{part="evaluator"} 1`,
		`pawl_part_starts_total{part="evaluator"} 2`,
		`pawl_part_rounds_total{part="evaluator"} 7`,
		`pawl_part_failures_total{part="evaluator"} 1`,
		`pawl_part_last_round_timestamp_seconds{part="evaluator"} 1.5`,
		`pawl_agent_runs_total{code="no_space",state="ERROR"} 1`,
		`pawl_agent_operation_errors_total{class="io"} 2`,
		`pawl_agent_state_duration_seconds_count{state="READY"} 1`,
		`pawl_agent_first_byte_seconds_bucket{operation="read",le="0.001"} 0`,
		`pawl_agent_first_byte_seconds_bucket{operation="read",le="0.002"} 2`,
		`pawl_agent_retries_total{operation="read"} 2`,
		`pawl_agent_retries_total{operation="create"} 3`,
		`pawl_worker_attempts_total{handler="command",outcome="success"} 1`,
		`pawl_worker_attempts_total{handler="command",outcome="retryable"} 1`,
		`pawl_worker_attempts_total{handler="command",outcome="permanent"} 1`,
		`pawl_worker_attempts_total{handler="command",outcome="snoozed"} 1`,
		`pawl_worker_attempts_total{handler="command",outcome="panic"} 1`,
		`pawl_worker_attempt_duration_seconds_count{handler="command"} 5`,
		`pawl_worker_running 0`,
		`pawl_worker_capacity 10`,
		`pawl_database_readable 1`,
		`pawl_jobs{status="RUNNING"} 2`,
		`pawl_jobs{status="PENDING"} 0`,
		`pawl_workers{status="PAUSED"} 1`,
		`pawl_steps{status="enqueued"} 5`,
		`pawl_queue_depth{queue="billing",workspace="shop"} 5`,
		`pawl_queue_oldest_seconds{queue="billing",workspace="shop"} 3`,
		`pawl_queue_running{queue="billing",workspace="shop"} 3`,
		`pawl_queue_workers{queue="billing",workspace="shop"} 2`,
		`pawl_queue_limit{queue="billing",workspace="shop"} 4`,
		`pawl_api_requests_total{operation="submit-job",status="201"} 1`,
		`pawl_api_replays_total{operation="submit-job"} 1`,
		"pawl_event_streams 2", "pawl_events_sent_total 7", "pawl_event_gaps_total 1", "pawl_event_lag_seconds 1.5",
		`pawl_api_request_duration_seconds_sum{operation="submit-job"} 1`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(text, `status="FAILED"`) {
		t.Error("jobs that have ended are counted")
	}
	if strings.Contains(text, "web-17") {
		t.Error("an id is a label")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %+v, %v", problems, err)
	}
	if !t.Failed() {
		return
	}
	t.Log(text)
}

// row is a line of the table in docs/metrics.md.
var row = regexp.MustCompile("(?m)^\\| `(pawl_[a-z_]+)` \\| ([a-z]+) \\| ([a-z, ]*) \\|")

// TestTheListIsComplete holds docs/metrics.md against what is told (K7).
func TestTheListIsComplete(t *testing.T) {
	_, families := scrape(t, busy(t))
	var told, listed []string
	for name, f := range families {
		if !strings.HasPrefix(name, "pawl_") {
			continue
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		told = append(told, name+" "+strings.ToLower(f.GetType().String())+" "+strings.Join(labels, ", "))
	}
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range row.FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, strings.Join(m[1:], " "))
	}
	slices.Sort(told)
	slices.Sort(listed)
	if diff := cmp.Diff(told, listed); diff != "" {
		t.Errorf("docs/metrics.md (-told +listed):\n%s", diff)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if families[name] == nil && !(name[0] == 'p' && onlyGo()) {
			t.Errorf("no %s", name)
		}
	}
}

// onlyGo reports whether the library knows nothing of processes here.
func onlyGo() bool {
	_, err := os.Stat("/proc/self/stat")
	return err != nil
}

// TestOfAHost follows the loops of a real host: one that runs, and one that panics.
func TestOfAHost(t *testing.T) {
	m := metrics.New("test")
	host, err := server.New(server.Config{Name: "server-1", Hooks: m.Hooks(), Log: slog.New(slog.DiscardHandler), Components: []server.Component{
		{Name: "good", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }},
		{Name: "bad", Run: func(context.Context) error { panic("a nil map") }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(host.Stats, host.Counts)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if _, err := host.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	limit, poll := time.After(time.Minute), time.NewTicker(5*time.Millisecond)
	defer poll.Stop()
	for text := ""; ; {
		text, _ = scrape(t, m)
		if strings.Contains(text, `pawl_part_up{part="good"} 1`) && strings.Contains(text, `pawl_part_up{part="bad"} 0`) &&
			strings.Contains(text, `pawl_services{phase="running"} 1`) && strings.Contains(text, `pawl_part_starts_total{part="bad"} 1`) &&
			strings.Contains(text, `pawl_service_transitions_total{from="trying_to_start",to="running",type="good"} 1`) {
			break
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatal(text)
		}
	}
	stop()
	<-over
}
