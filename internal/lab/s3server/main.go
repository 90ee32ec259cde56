// Program s3server is an object store in memory for tests, which start it: gofakes3 with one bucket.
// It refuses requests that are not signed as the SDK of Amazon signs them, which gofakes3 does not look
// at. It prints its URL once it listens, and ends when its standard input does.
//
// With -null it is no store: it discards what it gets and sends zeros, which costs next to nothing, so
// that a benchmark measures its clients.
package main

import (
	"crypto/tls"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address")
	bucket := flag.String("bucket", "bench", "the bucket that is there")
	certificate := flag.String("tls", "", "speak TLS, and write the certificate to this file")
	hosts := flag.Bool("hosts", false, "the bucket is the first part of the host of a request, and not of its path")
	nothing := flag.Bool("null", false, "store nothing")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	handler := http.Handler(http.HandlerFunc(null))
	if !*nothing {
		backend := s3mem.New()
		if err := backend.CreateBucket(*bucket); err != nil {
			log.Fatal(err)
		}
		handler = signed(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog()), gofakes3.WithHostBucket(*hosts)).Server())
	}
	scheme := "http"
	if *certificate != "" {
		if l, err = secure(l, *certificate); err != nil {
			log.Fatal(err)
		}
		scheme = "https"
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until who has started it is gone
		os.Exit(0)
	}()
	fmt.Printf("%s://%s/%s\n", scheme, l.Addr(), *bucket)
	log.Fatal(http.Serve(l, handler))
}

// secure returns a listener for TLS whose certificate, that of httptest, it writes to a file.
func secure(l net.Listener, file string) (net.Listener, error) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return tls.NewListener(l, &tls.Config{Certificates: s.TLS.Certificates}), os.WriteFile(file, block, 0o600)
}

var zeros = make([]byte, 1<<20)

// null discards the body of a request, and sends the range that it asks for. A list of the second version is empty.
func null(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a client that is gone gets no response
	w.Header().Set("ETag", `"0"`)
	w.Header().Set("Last-Modified", "Fri, 01 Jan 2021 00:00:00 GMT")
	if r.URL.Query().Has("list-type") {
		_, _ = io.WriteString(w, "<ListBucketResult/>")
		return
	}
	var first, last int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err == nil {
		n := min(last-first+1, len(zeros))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, 1<<30))
		w.Header().Set("Content-Length", fmt.Sprint(n))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(zeros[:n])
	}
}
