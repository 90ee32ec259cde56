package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestNoLostUpdates: of two writers that read a record and change that version of it, each
// makes its changes, and none of the other's is lost; one that does not name a version is not
// held up.
func TestNoLostUpdates(t *testing.T) { // J4
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	s.want(201, "POST", "/api/schedules", `{"name":"nightly","workflow":"order","cron":"@daily","priority":0}`)
	s.want(200, "PUT", "/api/resources/quotas/queue/billing", `{"slots":0}`)
	for _, tt := range []struct{ path, field, change string }{
		{"/api/schedules/nightly", "priority", `{"workflow":"order","cron":"@daily","priority":%d}`},
		{"/api/resources/quotas/queue/billing", "slots", `{"slots":%d}`},
	} {
		const writers, changes = 2, 20
		var all sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for range writers {
			all.Go(func() {
				for done := 0; done < changes; {
					was := s.want(200, "GET", tt.path, "")
					n := int(was.field(t, tt.field).(float64))
					a := s.do("PUT", tt.path, fmt.Sprintf(tt.change, n+1), "If-Match", was.header.Get("ETag"))
					if a.status == http.StatusOK {
						done++
					}
					mu.Lock()
					statuses[a.status]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		last := s.want(200, "GET", tt.path, "")
		if n := last.field(t, tt.field); n != float64(writers*changes) {
			t.Errorf("%s: %v after %d changes: %v", tt.path, n, writers*changes, statuses)
		}
		if len(statuses) > 2 || statuses[200] != writers*changes || len(statuses) == 2 && statuses[412] == 0 {
			t.Errorf("%s: statuses %v, want 200 and 412", tt.path, statuses)
		}
		s.want(200, "PUT", tt.path, fmt.Sprintf(tt.change, 1))
		refused := s.want(412, "PUT", tt.path, fmt.Sprintf(tt.change, 2), "If-Match", last.header.Get("ETag"))
		if code := refused.field(t, "code"); code != "PRECONDITION_FAILED" || !strings.Contains(string(refused.body), "version") {
			t.Errorf("%s", refused.body)
		}
		s.want(412, "DELETE", tt.path, "", "If-Match", last.header.Get("ETag"))
		gone := s.want(200, "GET", tt.path, "").header.Get("ETag")
		s.want(200, "DELETE", tt.path, "", "If-Match", gone)
		s.want(412, "PUT", tt.path, fmt.Sprintf(tt.change, 3), "If-Match", gone) // there is none any more
	}
}
