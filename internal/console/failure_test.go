package console

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

func TestJobFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		failure *pawl.Failure
		lines   []string
		printed bool
		want    string
	}{
		{"no reason", nil, nil, false, "error: job j_1 failed\n"},
		{"of the job", &pawl.Failure{Message: "too many"}, []string{"not asked for"}, true, "error: job j_1 failed: too many\n"},
		{"of a step", &pawl.Failure{Step: "load", Class: "exit_1", Message: "exit code 1", Permanent: true}, []string{"one\x1b[2J\r", "two"}, true,
			"  | one\uFFFD[2J\n  | two\nhint: see all its output with: pawl job logs j_1 load --utc\n"},
		{"of a silent step", &pawl.Failure{Step: "load", Message: "step load: no worker", Permanent: true}, nil, false, "error: job j_1 failed: step load: no worker\n"},
	} {
		var out strings.Builder
		JobFailure(&out, &pawl.JobView{ID: "j_1", Status: lifecycle.JobFailed, Error: tt.failure},
			func(string) ([]string, bool) { return tt.lines, tt.printed }, " --utc")
		if !strings.HasSuffix(out.String(), tt.want) {
			t.Errorf("%s (-want +got):\n%s", tt.name, cmp.Diff(tt.want, out.String()))
		}
	}
}
