package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// later is a server of a later version in front of one of today: each object has fields more,
// jobs and steps are in states that do not exist yet, and streams have events of another type.
func later(t *testing.T, of string) string {
	t.Helper()
	target := httptest.NewRequest(http.MethodGet, of, nil).URL
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("Accept-Encoding", "identity")
	}}
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
			r.Body = readCloser{io.MultiReader(strings.NewReader("event: tide\nlater: x\ndata: [\n\n"), r.Body), r.Body}
			return nil
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		var v any
		if json.Unmarshal(b, &v) == nil && !strings.HasSuffix(r.Request.URL.Path, "/definition") {
			if b, err = json.Marshal(amended(v)); err != nil {
				return err
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		r.Header.Del("Content-Length")
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

type readCloser struct {
	io.Reader
	io.Closer
}

// amended returns a value of JSON as a later version would write it.
func amended(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = amended(v[i])
		}
	case map[string]any:
		for key, of := range v {
			if key == "step_counts" || key == "definition" || key == "inputs" || key == "output" { // maps, and what users write
				continue
			}
			if s, is := of.(string); is && (key == "status" || key == "to") && (s == "COMPLETED" || s == "complete") {
				of = map[string]string{"COMPLETED": "ARCHIVED", "complete": "archived"}[s]
			}
			v[key] = amended(of)
		}
		v["later"] = map[string]any{"a": []any{1, nil}}
	}
	return v
}

// TestLaterServer: what a later version of a server says more is ignored, and states that do not
// exist yet are shown as they are.
func TestLaterServer(t *testing.T) {
	t.Parallel()
	s := &farSite{t: t, dir: shortDir(t), url: "http://" + freeAddress(t)}
	s.server()
	s.worker()
	file := filepath.Join(s.dir, "quick.yaml")
	write(t, file, "name: quick\nsteps: [{id: a, command: [echo, hello]}]\noutput: done\n")
	if out, err := exec.Command(binary(t), "--server", s.url, "submit", file, "--wait").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env := map[string]string{"HOME": s.dir, "USER": "tester"}
	at := later(t, s.url)
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"jobs", codeOK, "ARCHIVED"},
		{"jobs -o json", codeOK, `"ARCHIVED"`},
		{"job show last", codeOK, "archived"},
		{"job history last", codeOK, "archived"},
		{"job why last", codeOK, ""},
		{"job logs last", codeOK, "hello"},
		{"job diff last last", codeOK, "ARCHIVED"},
		{"watch last -o json", codeFailed, `"ARCHIVED"`}, // this program does not know that it is well
		{"workflow register " + file, codeOK, "quick@1"},
		{"workflow list", codeOK, "quick"},
		{"workflow show quick", codeOK, "quick"},
		{"worker list", codeOK, "RUNNING"},
		{"queue list", codeOK, ""},
		{"quota list", codeOK, ""},
		{"schedule list", codeOK, ""},
		{"service list", codeOK, ""},
		{"submit " + file, codeOK, "j_"},
	} {
		code, stdout, stderr := here(env, append([]string{"--server", at}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stdout, tt.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", tt.args, code, tt.code, tt.says, stdout, stderr)
		}
	}
	over := make(chan struct{})
	go func() { // what is shown has to happen
		for submit := exec.Command(binary(t), "--server", s.url, "submit", file); submit.Run() == nil; submit = exec.Command(submit.Path, submit.Args[1:]...) {
			select {
			case <-over:
				return
			default:
			}
		}
	}()
	code, stdout, stderr := here(env, "--server", at, "events", "--event", "success", "--limit", "1")
	close(over)
	if code != codeOK || !strings.Contains(stdout, "success") {
		t.Errorf("events: exit code %d\n%s%s", code, stdout, stderr)
	}
}
