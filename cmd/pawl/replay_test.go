package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestKilledBetweenCommitAndAnswer kills a server with signal 9 at random moments around the
// commit of a submission, whose client then asks the next server again with the same key: it
// gets the answer that it may have got before, byte for byte, and there is one job for each
// key (J8).
func TestKilledBetweenCommitAndAnswer(t *testing.T) {
	t.Parallel()
	const rounds = 15
	s := startServer(t, "server")
	env, dir := s.Env, s.dir
	answered := 0
	for i := range rounds {
		body := fmt.Sprintf(`{"source":"name: killed\nsteps: [{id: a, command: [\"true\"]}]\n","request_id":"key-%d"}`, i)
		first := make(chan string, 1)
		go func(url string) {
			text, err := submitTo(url, body)
			if err != nil {
				text = ""
			}
			first <- text
		}(s.url)
		time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, func() { _ = s.Process.Kill() }) // it has not ended before
		_ = s.Wait()                                                                                     // it was killed
		before := <-first
		if before != "" {
			answered++
		}
		s = startWith(t, dir, env, "server", "--listen", "127.0.0.1:0")
		s.until("it is ready", func() bool { status, _ := s.get("/readyz"); return status == http.StatusOK })
		after, err := submitTo(s.url, body)
		if err != nil {
			t.Fatalf("%v\n%s", err, s.said())
		}
		if before != "" && before != after {
			t.Errorf("round %d: the answer is %s, and was %s", i, after, before)
		}
	}
	status, text := s.get("/api/jobs?workflow=killed&limit=100")
	if n := strings.Count(text, `"workflow":"killed"`); status != http.StatusOK || n != rounds {
		t.Errorf("%d: there are %d jobs, want %d", status, n, rounds)
	}
	t.Logf("%d of %d requests were answered before the kill", answered, rounds)
	s.stop()
}

// submitTo submits a job and returns the status and the body of the answer.
func submitTo(url, body string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := client.Post(url+"/api/jobs", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return fmt.Sprint(r.StatusCode, " ", string(text)), err
}
