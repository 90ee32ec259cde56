package remote_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestVerificationOverRequests: a client asks how a verification stands until it has ended, and
// says what has become of one that it cannot see the end of.
func TestVerificationOverRequests(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		answers []string // to the questions how it stands
		want    string   // an error; empty: none
		seen    string
	}{
		"it ends":           {[]string{`{"id":"a","status":"running","entries":5}`, `{"id":"a","status":"ended","entries":9,"verdict":{"ok":true,"entries":9}}`}, "", "[0 5]"},
		"it fails":          {[]string{`{"id":"a","status":"failed","error":"the database is gone"}`}, "could not verify the trails: the database is gone", "[0]"},
		"another has begun": {[]string{`{"id":"b","status":"running"}`}, "another server responds now", "[0]"},
		"it is forgotten":   {[]string{""}, "another server responds now", "[0]"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, asked := newSite(t), 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := ""
				switch {
				case r.URL.Path != "/api/audit/verify-all":
					s.handler.ServeHTTP(w, r)
					return
				case r.Method == http.MethodPost:
					answer = `{"id":"a","status":"running"}`
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusAccepted)
				default:
					answer = tt.answers[asked]
					asked++
				}
				if answer == "" {
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(http.StatusNotFound)
					answer = `{"status":404,"code":"NOT_FOUND","detail":"none"}`
				}
				fmt.Fprint(w, answer)
			}))
			defer server.Close()
			var seen []int64
			v, err := open(t, server.URL).VerifyTrail(t.Context(), pawl.ID{}, func(n int64) { seen = append(seen, n) })
			if got := fmt.Sprint(seen); got != tt.seen {
				t.Errorf("progress: %s, want %s", got, tt.seen)
			}
			switch {
			case tt.want == "" && (err != nil || !v.OK || v.Entries != 9):
				t.Errorf("%+v, %v", v, err)
			case tt.want != "" && (pawl.KindOf(err) != pawl.Unavailable || !strings.Contains(fmt.Sprint(err), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
