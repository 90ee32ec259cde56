package api_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
)

// TestOverviewOfTheDoctor: the overview has what the last examination found, and examines again
// once that is 5 minutes old; callers see as much of it as they may (J4).
func TestOverviewOfTheDoctor(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	var runs atomic.Int64
	var ahead atomic.Int64
	g.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	g.examine = func() []health.Finding {
		runs.Add(1)
		return []health.Finding{{Check: "disk", Severity: health.Warning}, {Check: "clocks", Severity: health.OK}, {Check: "stuck", Severity: health.Problem}, {Check: "wal", Severity: health.Warning}}
	}
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	viewer, _ := g.token("viewer", nil, pawl.RoleViewer)
	some, _ := g.token("some", []string{"builds"}, pawl.RoleAdmin)

	if a := g.as(some, "GET", "/api/overview?workspace_id=builds", ""); a.status != 200 || a.field(t, "doctor") != nil || runs.Load() != 0 {
		t.Errorf("to a token of a workspace, after %d examinations: %d %s", runs.Load(), a.status, a.body)
	}
	a := g.as(admin, "GET", "/api/overview", "")
	if a.field(t, "doctor.problems") != 1.0 || a.field(t, "doctor.warnings") != 2.0 || a.field(t, "doctor.findings.0.check") != "stuck" || a.field(t, "doctor.findings.2.check") != "wal" {
		t.Errorf("to an admin: %s", a.body)
	}
	ahead.Store(int64(4 * time.Minute))
	a = g.as(viewer, "GET", "/api/overview", "")
	if a.field(t, "doctor.problems") != 1.0 || a.field(t, "doctor.findings") != nil || runs.Load() != 1 {
		t.Errorf("to a viewer, after %d examinations: %s", runs.Load(), a.body)
	}
	if age := a.field(t, "doctor.age_seconds").(float64); age < 240 || age > 290 {
		t.Errorf("it is %v seconds old", age)
	}
	ahead.Store(int64(6 * time.Minute))
	g.as(viewer, "GET", "/api/overview", "")
	g.as(admin, "GET", "/api/doctor", "")
	if a = g.as(viewer, "GET", "/api/overview", ""); runs.Load() != 3 || a.field(t, "doctor.age_seconds").(float64) > 50 {
		t.Errorf("after 6 minutes and an examination by hand: %d, %s", runs.Load(), a.body)
	}
}

// TestOverviewsShareAnExamination: while one runs, the overview has the result before, or none, and
// starts no other.
func TestOverviewsShareAnExamination(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	begun, end := make(chan struct{}, 9), make(chan struct{})
	s.examine = func() []health.Finding {
		begun <- struct{}{}
		<-end
		return nil
	}
	first := make(chan *answer)
	go func() { first <- s.do("GET", "/api/overview", "") }()
	<-begun
	if a := s.want(200, "GET", "/api/overview", ""); a.field(t, "doctor") != nil {
		t.Errorf("beside the first examination: %s", a.body)
	}
	s.want(503, "GET", "/api/doctor", "")
	close(end)
	if a := <-first; a.status != 200 || a.field(t, "doctor.problems") != 0.0 || len(begun) != 0 {
		t.Errorf("%d others; %d %s", len(begun), a.status, a.body)
	}
}
