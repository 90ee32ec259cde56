package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandlerEchoes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, method, key, body, want string }{
		{"get", http.MethodGet, "", "", `{"method":"GET","path":"/a"}`},
		{"post", http.MethodPost, "k-1", `{"b":1}`, `{"method":"POST","path":"/a","idempotency_key":"k-1","body":"{\"b\":1}"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(test.method, "/a", strings.NewReader(test.body))
			r.Header.Set("Idempotency-Key", test.key)
			var printed strings.Builder
			w := httptest.NewRecorder()
			handler(&printed).ServeHTTP(w, r)
			if got := strings.TrimSpace(w.Body.String()); got != test.want || w.Code != http.StatusOK {
				t.Errorf("got %d %s\nwant 200 %s", w.Code, got, test.want)
			}
			if want := test.method + " /a\n"; printed.String() != want {
				t.Errorf("printed %q, want %q", printed.String(), want)
			}
		})
	}
}

func TestHandlerRefusesLongBodies(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	body := strings.NewReader(strings.Repeat("x", maxBody+1))
	handler(io.Discard).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", body))
	if w.Code != http.StatusBadRequest {
		t.Errorf("got %d, want 400", w.Code)
	}
}

func TestListenStaysOnLoopback(t *testing.T) {
	t.Parallel()
	if l, err := listen("0.0.0.0:0"); err == nil {
		l.Close()
		t.Error("listens everywhere")
	}
	l, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
