package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
)

// TestDiagnoseWhatIsNotFound: what was taken from the table of what runs, or put into
// another line, is named by the doctor, and found again after what it advises (K6).
func TestDiagnoseWhatIsNotFound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tamper string
		want   []string
	}{
		"nothing runs":  {"delete from running", []string{"it runs and is not in the table running", "worker 7 holds it, and the table running does not say so"}},
		"nobody holds":  {"update running set worker = 0", []string{"worker 7 holds it, and the table running does not say so"}},
		"another job":   {"update running set jobs = '{1}'", []string{"it runs and is not in the table running", "worker 7 holds it, and the table running does not say so"}},
		"a pending job": {"update job set line = 0 where state = 'PENDING'", []string{"it is PENDING in line 0, and belongs in 1"}},
		"a held step":   {"update step set line = 1 where state = 'in_progress'", []string{"it is in_progress in line 1, and belongs in 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
			beginJobs(t, db, 1, 7)
			submit(t, db, 1, 1)
			if found := find(Diagnose(t.Context(), db.cfg), "running"); len(found) > 0 {
				t.Fatalf("before anything was changed: %+v", found)
			}
			execute(t, db, tt.tamper)
			found := find(Diagnose(t.Context(), db.cfg), "running")
			if len(found) != len(tt.want) {
				t.Fatalf("found %+v, want %q", found, tt.want)
			}
			for i, f := range found {
				if f.Severity != health.Problem || f.Measured != tt.want[i] || !strings.HasPrefix(f.Subject, "job j_") && !strings.HasPrefix(f.Subject, "step st_") {
					t.Errorf("found %+v, want %q", f, tt.want[i])
				}
				execute(t, db, f.Cure)
			}
			checkLines(t, db)
			if left := find(Diagnose(t.Context(), db.cfg), "running"); len(left) > 0 {
				t.Errorf("after what was advised: %+v", left)
			}
		})
	}
}

// TestDiagnoseDoubles: an entry of a trail that stands twice, in a row of its own and in
// the list of another, is named (K8).
func TestDiagnoseDoubles(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := submit(t, db, doublesPage+2, 1) // the doubled one is on the second page
	if found := find(Diagnose(t.Context(), db.cfg), "audit_doubles"); len(found) > 0 {
		t.Fatalf("before anything was changed: %+v", found)
	}
	onURL(t, db.cfg.URL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), `update audit set further = (coalesce(further::jsonb, '[]') ||
  jsonb_build_array(jsonb_build_array(ord, seq, state, event, reason, actor, request_id, null, at, encode(hash, 'hex'))))::text where job = $1 and ord = 0 and seq = 1`, jobs[0].Key())
		return err
	})
	found := find(Diagnose(t.Context(), db.cfg), "audit_doubles")
	want := "job " + jobs[0].ID.Public(pawl.JobPrefix)
	if len(found) != 1 || found[0].Severity != health.Problem || found[0].Subject != want || found[0].Measured != "entry 1 of its trail is stored 2 times" {
		t.Errorf("found %+v, want entry 1 of %s", found, want)
	}
}
