package files

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadJobs(t *testing.T) {
	t.Parallel()
	const (
		one = "j_019a3c7e5b7a7c1d8000000040a1b2c3"
		two = "j_019a3c7e5b7a7c1d8000000040a1b2c4"
	)
	for _, tt := range []struct {
		name, text string
		want       []string
		err        string
	}{
		{"nothing", " \n", nil, ""},
		{"a table", "ID  WORKFLOW\n" + one + "  nightly  FAILED\n  " + two + " other\n", []string{one, two}, ""},
		{"one twice", one + "\n" + two + "\n" + one + "\n", []string{one, two, one}, ""},
		{"an id further on", "job " + one + "\n" + two + "\n", []string{two}, ""},
		{"no id", "ID  WORKFLOW\n", nil, "there is no id of a job on stdin: want j_ and 32 digits as the first word of a line"},
		{"an empty list", "[]", nil, ""},
		{"a list", `[{"id": "` + two + `", "status": "FAILED"}, {"id": "` + one + `"}]`, []string{two, one}, ""},
		{"several texts", `{"id": "` + one + `"} [{"id": "` + two + `"}]`, []string{one, two}, ""},
		{"not JSON", `[{"id": `, nil, "stdin: want a list of jobs in JSON: unexpected EOF"},
		{"no jobs", `[{"name": "x"}]`, nil, `stdin: want jobs in JSON, each with its id: id ""`},
	} {
		got, err := ReadJobs(strings.NewReader(tt.text))
		said := ""
		if err != nil {
			said = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || !strings.HasPrefix(said, tt.err) || (said == "") != (tt.err == "") {
			t.Errorf("%s: %q (-want +got):\n%s", tt.name, said, diff)
		}
	}
}
