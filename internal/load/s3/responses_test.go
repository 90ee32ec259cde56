package s3_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
	"github.com/pawl-dev/pawl/internal/load/s3"
)

// responding returns a client of a server that sends the same to every request.
func responding(t *testing.T, status int, body string, headers ...string) *s3.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return s3test.Client(t, server.URL+"/bench")
}

// TestWrongLists: what is no list, and a list that cannot be read to its end, are errors: a cleanup would take them for
// a bucket that has nothing more (L9).
func TestWrongLists(t *testing.T) {
	t.Parallel()
	const key = "<Contents><Key>a</Key></Contents><Upload><Key>a</Key><UploadId>1</UploadId></Upload>"
	list := func(rest string) string {
		return "<ListBucketResult>" + key + rest + "</ListBucketResult><ListMultipartUploadsResult>" + key + rest + "</ListMultipartUploadsResult>"
	}
	for name, test := range map[string]struct{ body, text string }{
		"of buckets":        {"<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>", "has not sent a List"},
		"for people":        {"<html>Welcome to nginx!</html>", "has not sent a List"},
		"nothing":           {"", "has not sent a List"},
		"without a token":   {list("<IsTruncated>true</IsTruncated>"), "without where the next one begins"},
		"with an old token": {list("<IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken><NextKeyMarker>a</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"), "without where the next one begins"},
		"that is whole":     {list("<IsTruncated>false</IsTruncated>"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := responding(t, http.StatusOK, test.body)
			page, listErr := c.List("", "a", false, 1)
			uploads, _, uploadsErr := c.Uploads("", s3.Upload{Key: "a", ID: "1"})
			if test.text == "" {
				if listErr != nil || uploadsErr != nil || len(page.Keys) == 0 || len(uploads) == 0 {
					t.Error(page, listErr, uploads, uploadsErr)
				}
				return
			}
			for _, err := range []error{listErr, uploadsErr} {
				if s3.KindOf(err) != s3.Mismatch || !strings.Contains(err.Error(), test.text) {
					t.Error(err)
				}
			}
		})
	}
}

// TestGarbage: what a server sends in place of a response is in the error short and without credentials.
func TestGarbage(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, s3test.Secret+" "+strings.Repeat("x", 10_000)+"\r\n\r\n")
	}()
	_, err = s3test.Client(t, "http://"+l.Addr().String()+"/bench").Head("key")
	if s3.KindOf(err) != s3.Connection || !strings.Contains(err.Error(), "malformed") || strings.Contains(err.Error(), s3test.Secret) || len(err.Error()) > 500 {
		t.Error(err)
	}
}

// TestRedirect: a redirect is an error and is not followed: credentials stay with the host that was named (L9).
func TestRedirect(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	t.Cleanup(other.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c := responding(t, status, "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>", "Location", other.URL+"/bench/key")
		for range 2 {
			if err := c.Put("key", 1<<20, contents(1<<20)); err == nil || !strings.Contains(err.Error(), "PermanentRedirect") {
				t.Error(status, err)
			}
			if _, err := c.Get("key", 0, 10, 10, make([]byte, 10), nil); err == nil || !strings.Contains(err.Error(), "PermanentRedirect") {
				t.Error(status, err)
			}
		}
	}
}
