package s3test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// A Trouble is what happens to a request.
type Trouble int

// The troubles.
const (
	None     Trouble = iota
	Stall            // no response, ever
	Reset            // the connection is reset without a response
	Hangup           // it is closed without one
	SlowDown         // 503, before the body is read
	Half             // half of the content, and the connection is closed
	Wrong            // the first byte of the content is another one
	Short            // the content lacks its last byte, and the response says so
	Whole            // all of the object, where a range was asked for
	Long             // a byte more than was asked for, and the end of the content is the end of the connection
	Endless          // a list that says that there is more, and not where
	Circle           // a list that says that there is more, at one of two places in turn
	Shifted          // as many bytes as were asked for, of another range
)

// Proxy returns the URL of a bucket that is reached by a proxy, which asks what is to happen to each
// request. It may ask from several goroutines.
func (s *Server) Proxy(t testing.TB, trouble func(*http.Request) Trouble) string {
	t.Helper()
	target, err := url.Parse("http://" + s.Address())
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { hijack(w).Close() }, // as the server does
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if how := trouble(r); how != None {
			fail(w, r, how, forward, end)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(end)
		proxy.CloseClientConnections()
		proxy.Close()
	})
	return strings.Replace(s.URL, s.Address(), proxy.Listener.Addr().String(), 1)
}

// fail makes trouble.
func fail(w http.ResponseWriter, r *http.Request, how Trouble, forward http.Handler, end chan struct{}) {
	switch how {
	case Stall:
		<-end
	case Reset:
		c := hijack(w)
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	case Hangup:
		hijack(w).Close()
	case Endless:
		_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")
	case Circle:
		next := "even"
		if r.URL.Query().Get("continuation-token") == next {
			next = "odd"
		}
		_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>"+next+"</NextContinuationToken></ListBucketResult>")
	case SlowDown:
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	default:
		switch how {
		case Whole:
			r.Header.Del("Range")
		case Shifted:
			var first, last int64
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err == nil {
				r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first+1, last+1))
			}
		}
		response := httptest.NewRecorder()
		forward.ServeHTTP(response, r)
		spoil(w, response, how)
	}
}

// spoil sends a response that is not the store's.
func spoil(w http.ResponseWriter, response *httptest.ResponseRecorder, how Trouble) {
	b, length := response.Body.Bytes(), response.Body.Len()
	switch how {
	case Half:
		b = b[:length/2]
	case Wrong:
		b[0]++
	case Short:
		b = b[:length-1]
		length = len(b)
	}
	c := hijack(w)
	defer c.Close()
	fmt.Fprintf(c, "HTTP/1.1 %d OK\r\nContent-Range: %s\r\n", response.Code, response.Header().Get("Content-Range"))
	if how == Long {
		b = append(b, 'x')
		fmt.Fprint(c, "Connection: close\r\n\r\n")
	} else {
		fmt.Fprintf(c, "Content-Length: %d\r\n\r\n", length)
	}
	_, _ = c.Write(b) // to who may be gone
}

func hijack(w http.ResponseWriter) net.Conn {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return c
}
