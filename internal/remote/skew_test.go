package remote_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestMissingOperation: an operation that an older server lacks is named, with the version that
// has it, if that is known.
func TestMissingOperation(t *testing.T) {
	t.Parallel()
	e := fake(t, http.NotFound)
	for since, want := range map[string]string{"": "is of version 1.0, and has no operation search", "1.4": "is of version 1.0, and has no operation search; it came with 1.4"} {
		if err := e.Missing("search", since); pawl.KindOf(err) != pawl.Invalid || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
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
