package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/results"
	"github.com/pawl-dev/pawl/internal/load/stats"
	"github.com/pawl-dev/pawl/internal/metrics"
)

// controlled adds a load that runs on two agents, of which one is lost, and a folder of runs.
func controlled(m *metrics.Metrics) {
	l := m.Load()
	l.Changed(controller.View{Phase: controller.Running, Agents: []controller.AgentView{
		{Status: loadpb.Status_STATUS_RUNNING, Measured: true, Clock: report.Clock{Bound: 3 * time.Microsecond}, Begun: true, Skew: [2]time.Duration{-time.Microsecond, 5 * time.Microsecond}},
		{Status: loadpb.Status_STATUS_RUNNING, Failure: &loadpb.Error{}, Measured: true, Clock: report.Clock{Bound: 7 * time.Microsecond}, Begun: true, Skew: [2]time.Duration{2 * time.Microsecond, 9 * time.Microsecond}},
	}})
	for range 2 {
		c := &stats.Counter{Operations: 2, Bytes: 8192, Errors: map[string]uint64{"io": 1}, Response: &histogram.Histogram{}, FirstByte: &histogram.Histogram{}, Retries: 3}
		for _, ns := range []int64{900, 2e6} {
			c.Service.Record(ns)
			c.Response.Record(2 * ns)
			c.FirstByte.Record(ns / 2)
		}
		l.Interval(controller.Interval{End: time.Second, Backlog: 4, Operations: stats.Table{{Operation: "read", SizeClass: "<=4KiB"}: c}})
	}
	m.WatchLoads(func(context.Context) ([]results.Run, error) {
		return []results.Run{{State: results.Lost}, {State: results.Completed}, {State: results.Lost}}, nil
	})
}

// TestLoad: the metrics of a load are those of all its intervals and agents, and each bucket has what is
// not above its bound (L11).
func TestLoad(t *testing.T) {
	m := metrics.New("1")
	controlled(m)
	text, _ := scrape(t, m)
	for _, want := range []string{
		`pawl_load_phase{phase="running"} 1`, `pawl_load_phase{phase="ending"} 0`,
		`pawl_load_agents{status="running"} 1`, `pawl_load_agents{status="lost"} 1`, `pawl_load_agents{status="ready"} 0`,
		`pawl_load_skew_seconds{thread="first"} -1e-06`, `pawl_load_skew_seconds{thread="last"} 9e-06`, `pawl_load_clock_bound_seconds 7e-06`,
		`pawl_load_operations_total{operation="read"} 4`, `pawl_load_bytes_total{operation="read"} 16384`, `pawl_load_errors_total{class="io",operation="read"} 2`,
		`pawl_load_service_seconds_bucket{operation="read",le="1e-06"} 2`, `pawl_load_service_seconds_bucket{operation="read",le="0.001"} 2`,
		`pawl_load_service_seconds_bucket{operation="read",le="0.002"} 4`, `pawl_load_service_seconds_bucket{operation="read",le="+Inf"} 4`,
		`pawl_load_response_seconds_bucket{operation="read",le="0.002"} 2`, `pawl_load_response_seconds_count{operation="read"} 4`,
		`pawl_load_first_byte_seconds_bucket{operation="read",le="0.001"} 4`, `pawl_load_first_byte_seconds_bucket{operation="read",le="0.0005"} 2`, `pawl_load_retries_total{operation="read"} 6`,
		`pawl_load_backlog 4`, `pawl_load_intervals_total 2`,
		`pawl_load_runs{state="lost"} 2`, `pawl_load_runs{state="completed"} 1`, `pawl_load_runs{state="running"} 0`, `pawl_load_runs_readable 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

// TestUnreadableLoads: a folder that cannot be read is said to be so, and its runs are not counted as none.
func TestUnreadableLoads(t *testing.T) {
	m := metrics.New("1")
	m.WatchLoads(func(context.Context) ([]results.Run, error) { return nil, errors.New("gone") })
	if text, _ := scrape(t, m); !strings.Contains(text, "\npawl_load_runs_readable 0\n") || strings.Contains(text, "\npawl_load_runs{") {
		t.Error(text)
	}
}

// TestLoadsThatHang: a folder that hangs holds up scrapes for a time only, and those that come at once no longer than
// one; what was read serves further scrapes for a while.
func TestLoadsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New("1")
		read := func() string { // without a network, whose time is another
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return w.Body.String()
		}
		lists, hangs := 0, true
		m.WatchLoads(func(ctx context.Context) ([]results.Run, error) {
			if lists++; hangs {
				<-ctx.Done()
			}
			return []results.Run{{State: results.Lost}}, ctx.Err()
		})
		begun := time.Now()
		for range 3 { // as if they had come at once: the later ones wait for the first
			if text := read(); !strings.Contains(text, "\npawl_load_runs_readable 0\n") || time.Since(begun) > 2*time.Second {
				t.Errorf("after %s: %s", time.Since(begun), text)
			}
		}
		time.Sleep(time.Second)
		lists, hangs = 0, false
		for range 2 {
			if text := read(); !strings.Contains(text, `pawl_load_runs{state="lost"} 1`) {
				t.Error(text)
			}
		}
		if lists != 1 {
			t.Errorf("%d lists", lists)
		}
		time.Sleep(2 * time.Second)
		read()
		if lists != 2 {
			t.Errorf("%d lists", lists)
		}
	})
}
