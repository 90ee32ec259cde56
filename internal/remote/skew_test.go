package remote_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestMissingOperation: an operation that an older server lacks is named, with its version.
func TestMissingOperation(t *testing.T) {
	t.Parallel()
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"status":404,"code":"NO_SUCH_OPERATION","detail":"there is none"}`))
	})
	const want = "is of version 1.0, and has no operation query-audit"
	if _, _, err := e.MovePage(t.Context(), pawl.AuditQuery{}); pawl.KindOf(err) != pawl.Invalid || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWaitForALaterState: a job that has ended in a state that this program does not know has
// ended.
func TestWaitForALaterState(t *testing.T) {
	t.Parallel()
	const id = "j_019ac1f0a3c47d5e8f00112233445566"
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"` + id + `","status":"ARCHIVED","completed_at":"2026-03-01T12:00:00.000000Z","later":{"a":[1]}}`))
	})
	of, err := pawl.ParseID(pawl.JobPrefix, id)
	must(t, err)
	j, err := e.Wait(t.Context(), of)
	if must(t, err); j.State != "ARCHIVED" || lifecycle.Job.Has(j.State) {
		t.Errorf("the job is %s", j.State)
	}
}
