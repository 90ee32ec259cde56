package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuickExchanges: an exchange that is read in one pass is answered as one that is not, which
// has a key with an escape: errors, status and headers are the same (T11).
func TestQuickExchanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	report := func(id, more string) string {
		return fmt.Sprintf(`{"turn":%%d,"wait_ms":0,"reports":[{"step_id":%q,"claim":1,"outcome":"complete"%s}]}`, id, more)
	}
	one := "st_019ac1f0a3c47d5e8f00112233445566"
	worker := s.register(`{}`)
	turn := 1_000_000
	for _, b := range []string{`{"turn":%d,"wait_ms":0}`, `{"turn":%d,"free":0,"wait_ms":0}x`, `{"turn":%d,"free":-1}`, `{"turn":%d,"free":1001}`, `{"turn":%d,"wait_ms":"a"}`, `{"turn":%d,"new":1}`, `{"turn":%d,"free":0,"free":0}`,
		`{"turn":%d`, `{"turn":%d,"reports":[{}],"wait_ms":0}`, report("st_1", ""), report(one, ""), report(one, `,"output":{"a":1,"a":2}`), report(one, `,"output":1e999`),
		report(one, `,"output":"`+"\xff"+`"`), report(one, `,"output":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)), report(one, `,"output":"`+strings.Repeat("a", 1<<20)+`"`), report(one, `,"output":"`+strings.Repeat("a", 8<<20)+`"`)} {
		for _, path := range []string{s.of(worker, "exchange"), s.of(worker, "claim"), "/api/workers/w_019ac1f0a3c47d5e8f00112233445566/exchange", "/api/workers/w_1/exchange", s.of(worker, "exchange") + "?a=1"} {
			send := func(body string) *answer {
				turn++
				return s.do("POST", path, fmt.Sprintf(body, turn))
			}
			quick, slow := send(b+"     "), send(strings.Replace(b, `"turn"`, `"t\u0075rn"`, 1))
			for _, a := range []*answer{quick, slow} {
				for _, name := range []string{"Request-Id", "Date"} {
					if a.header.Get(name) == "" {
						t.Errorf("%s has no header %s", path, name)
					}
					a.header.Del(name)
				}
			}
			if diff := cmp.Diff(slow.header, quick.header); diff != "" || slow.status != quick.status || known(slow, turn) != known(quick, turn-1) {
				t.Errorf("%s %.200s: %d %s, and slowly %d %s\n%s", path, b, quick.status, quick.body, slow.status, slow.body, diff)
			}
		}
	}
}

// known returns the body of an answer without its turn and the id of its request.
func known(a *answer, turn int) string {
	body := strings.ReplaceAll(string(a.body), fmt.Sprint(turn), "TURN")
	if before, rest, found := strings.Cut(body, `"request_id":"`); found {
		_, behind, _ := strings.Cut(rest, `"`)
		return before + behind
	}
	return body
}
