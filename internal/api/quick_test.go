package api_test

import (
	"fmt"
	"regexp"
	"slices"
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

// TestQuickSubmissions: a submission, and a batch, that is read in one pass has the same effect and the
// same response as one that is not, which has an unusual header: errors, status and headers are the same,
// and name the place of the job in the batch (J3).
func TestQuickSubmissions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	job := s.want(201, "POST", "/api/jobs", `{"workflow":"order"}`).field(t, "id").(string)
	definition := strings.TrimSpace(string(s.want(200, "GET", "/api/jobs/"+job+"/definition", "").body))
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	ids := regexp.MustCompile(`j_[0-9a-f]{32}|20[0-9-]{8}T[0-9:.]+Z|key[0-9]+|"request_id":"[A-Z0-9]{26}"`)
	n := 0
	for _, b := range []string{`{"workflow":"order"}`, `{"workflow":"order@1","workspace_id":"default","priority":-3,"task_description":"ä <b>","worker_count":2,"depth":0,"metadata":{"a":1}}`,
		`{"workflow":"order","inputs":{"fail":"x"}}`, `{"workflow":"order","inputs":null}`, `{"workflow":"order","inputs":[]}`, `{"workflow":"order","inputs":{"nope":1}}`, `{"workflow":"order","inputs":{"fail":1}}`,
		`{"workflow":"order","inputs":{"fail":"` + strings.Repeat("a", 1<<20) + `"}}`, `{"workflow":"order","inputs":{"fail":"` + strings.Repeat("a", 1<<20-40) + `"}}`, `{"workflow":"order","inputs":{"fail":"` + strings.Repeat("a", 8<<20) + `"}}`,
		`{"definition":` + definition + `}`, `{"definition": ` + definition + ` }`, `{"definition":{}}`, `{"definition":null}`, `{"definition":1}`, `{"source":"name: x\nsteps: [{id: a, run: x}]\n"}`, `{"source":"name: ["}`,
		`{}`, `{"workflow":"order","source":"x"}`, `{"workflow":"nope"}`, `{"workflow":"order@7"}`, `{"workflow":"a b"}`, `{"workflow":"order","priority":1001}`, `{"workflow":"order","priority":"high"}`, `{"workflow":"order","depth":1}`, `{"workflow":"order","depth":6}`,
		`{"workflow":"order","worker_count":11}`, `{"workflow":"order","parent_job_id":"j_1"}`, `{"workflow":"order","parent_job_id":"j_019ac1f0a3c47d5e8f00112233445566"}`, `{"workflow":"order","new":1}`, `{"Workflow":"order"}`,
		`{"workflow":"order","workflow":"order"}`, `{"workflow":"order","inputs":{"a":1,"a":2}}`, `{"workflow":"order","inputs":` + deep + `}`, `{"workflow":"order","metadata":{"dir":1}}`, `{"workflow":"order","metadata":[]}`,
		`{"workflow":"order","request_id":"a b"}`, `{"workflow":"order","request_id":"keyN"}`, `{"workflow":"order","request_id":"` + strings.Repeat("k", 256) + `"}`, `{"workflow":"order"`, `{"workflow":"order"}}`, "{\"workflow\":\"\xff\"}", `null`, `[]`, ``} {
		for _, form := range []string{"%s", `{"jobs":[%s]}`, `{"jobs":[{"workflow":"order"},%s]}`, `{"request_id":"keyN","jobs":[%s,%[1]s]}`, `{"jobs":[%s],"new":1}`} {
			path := "/api/jobs/batch"
			if form == "%s" {
				path = "/api/jobs"
			}
			for _, header := range [][]string{nil, {"Idempotency-Key", "keyN"}} {
				send := func(more ...string) *answer {
					n++
					key := fmt.Sprint("key", n)
					own := slices.Concat(header, more)
					for i := range own {
						own[i] = strings.ReplaceAll(own[i], "keyN", key)
					}
					a := s.do("POST", path, strings.ReplaceAll(fmt.Sprintf(form, b), "keyN", key), own...)
					for _, name := range []string{"Request-Id", "Date", "Content-Length"} { // the library sends what is long in chunks
						a.header.Del(name)
					}
					if at := a.header.Get("Location"); at != "" {
						a.header.Set("Location", ids.ReplaceAllString(at, "ID"))
					}
					a.body = ids.ReplaceAll(a.body, []byte("ID"))
					return a
				}
				quick, slow := send(), send("Accept", "application/json;q=1")
				if diff := cmp.Diff(slow.header, quick.header); diff != "" || slow.status != quick.status || string(slow.body) != string(quick.body) {
					t.Errorf("%s %.300s %v: %d %s, and slowly %d %s\n%s", path, fmt.Sprintf(form, b), header, quick.status, quick.body, slow.status, slow.body, diff)
				}
			}
		}
	}
}

// TestQuickReplays: a submission, and a batch, that is repeated is replayed whether it is read in one pass or
// not, and so was the first; that it was read in one pass shows the length of its response (J8).
func TestQuickReplays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	jobs := `{"jobs":[` + strings.Repeat(`{"workflow":"order"},`, 19) + `{"workflow":"nope"}]}`
	for path, body := range map[string]string{"/api/jobs": `{"workflow":"order"}`, "/api/jobs/batch": jobs} {
		for i, first := range []string{"*/*", "application/json;q=1"} {
			var was *answer
			for _, accept := range []string{first, "*/*", "application/json;q=1", "*/*"} {
				a := s.do("POST", path, body, "Idempotency-Key", fmt.Sprintf("k%d-%d", i, len(path)), "Accept", accept)
				if path != "/api/jobs" && (a.header.Get("Content-Length") != "") != (accept == "*/*") {
					t.Errorf("%s as %s: the length of the response is %q", path, accept, a.header.Get("Content-Length"))
				}
				for _, name := range []string{"Request-Id", "Date", "Content-Length"} {
					a.header.Del(name)
				}
				if replayed := a.header.Get("Idempotency-Replayed"); (replayed == "true") != (was != nil) {
					t.Errorf("%s as %s is replayed: %q", path, accept, replayed)
				}
				if a.header.Del("Idempotency-Replayed"); was == nil {
					was = a
				}
				if diff := cmp.Diff(was.header, a.header); diff != "" || was.status != a.status || string(was.body) != string(a.body) {
					t.Errorf("%s as %s: %d %s, was %d %s\n%s", path, accept, a.status, a.body, was.status, was.body, diff)
				}
			}
		}
	}
}

// TestLargestQuickBody: a body that is too large for the HTTP library is so in one pass.
func TestLargestQuickBody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	for size, status := range map[int]int{8<<20 - 1: 201, 8 << 20: 413, 8<<20 + 1: 413} {
		body := `{"workflow":"order"}`
		body += strings.Repeat(" ", size-len(body))
		for _, accept := range []string{"*/*", "application/json;q=1"} {
			if a := s.do("POST", "/api/jobs", body, "Accept", accept); a.status != status {
				t.Errorf("%d bytes as %s: %d %s, want %d", size, accept, a.status, a.body, status)
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
