// Echo is a small web server for http.yaml to talk to: it answers every request
// with what it was sent, as JSON, and prints a line about it. It listens on
// loopback only.
//
//	go run ./examples/echo                     at 127.0.0.1:8080
//	go run ./examples/echo -address 127.0.0.1:0
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// maxBody is the most bytes of a body that are echoed.
const maxBody = 64 << 10

// An answer is what a request is answered with.
type answer struct {
	Method         string `json:"method"`
	Path           string `json:"path"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Body           string `json:"body,omitempty"`
}

func main() {
	address := flag.String("address", "127.0.0.1:8080", "where to listen, on loopback; port 0 takes a free one")
	flag.Parse()
	if err := serve(*address, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// serve listens and answers until the process ends.
func serve(address string, out io.Writer) error {
	listener, err := listen(address)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on http://%s/\n", listener.Addr())
	server := &http.Server{Handler: handler(out), ReadTimeout: 10 * time.Second}
	return server.Serve(listener)
}

func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if a, ok := listener.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("address %q is not on loopback: want 127.0.0.1:PORT", address), listener.Close())
	}
	return listener, nil
}

// handler echoes requests, and prints a line about each to out.
func handler(out io.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer{r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), string(body)}) // the client may be gone
		fmt.Fprintln(out, r.Method, r.URL.Path)
	})
}
