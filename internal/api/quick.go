package api

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/internal/exchange"
)

// An exchanging is the request of an exchange.
type exchanging struct {
	WorkerPath
	Body exchange.Request
}

// A readContext is a request whose body was read, and is to be read again.
type readContext struct {
	humaContext
	body io.Reader
}

// Unwrap is for humago.Unwrap.
func (r *readContext) Unwrap() huma.Context { return r.humaContext }

// BodyReader returns the body.
func (r *readContext) BodyReader() io.Reader { return r.body }

// quickly does exchanges that are written as usual without the HTTP library, which reads each body
// several times and by reflection. The library gets the others, and so makes all errors of form.
func (s *Service) quickly(do func(context.Context, *exchanging) (*body[exchange.Answer], error)) func(huma.API, huma.Operation) {
	slowly := does(s, do)
	return func(to huma.API, o huma.Operation) {
		o.Middlewares = append(o.Middlewares, func(c huma.Context, next func(huma.Context)) {
			_ = c.SetReadDeadline(time.Now().Add(o.BodyReadTimeout)) // as the library does
			buffer := buffers.Get().(*bytes.Buffer)
			_, err := buffer.ReadFrom(io.LimitReader(c.BodyReader(), o.MaxBodyBytes))
			request := exchange.QuickRequest(buffer.Bytes())
			r, w := humago.Unwrap(c)
			if err != nil || request == nil || !isUsual(r) {
				next(&readContext{c, io.MultiReader(buffer, failing{err})})
				return
			}
			_ = c.SetReadDeadline(time.Time{}) // likewise
			if buffer.Cap() <= maxBuffer {
				buffer.Reset()
				buffers.Put(buffer)
			}
			out, err := do(r.Context(), &exchanging{WorkerPath{c.Param("id")}, *request}) // it may wait
			request.Over()
			if err != nil {
				s.problem(r.Context(), o.OperationID, err).send(w, c.SetStatus) // as the library does
				return
			}
			writeResponse(c, w, &out.Body)
			out.Body.Over()
		})
		slowly(to, o)
	}
}

// isUsual reports whether a request has no parameters, and takes JSON without naming others.
func isUsual(r *http.Request) bool {
	accept := r.Header["Accept"]
	return r.URL.RawQuery == "" && (len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "application/json"))
}

// writeResponse sends the response to an exchange.
func writeResponse(c huma.Context, w http.ResponseWriter, a *exchange.Answer) {
	withText(a, func(text []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		c.SetStatus(http.StatusOK)
		_, _ = w.Write(text) // the client is gone
	})
}

// withText calls f with the JSON of the response, which is gone when f returns.
func withText(a *exchange.Answer, f func(text []byte)) {
	buffer := responseBuffers.Get().(*[]byte)
	*buffer = append(a.AppendJSON((*buffer)[:0]), '\n')
	f(*buffer)
	if cap(*buffer) <= maxBuffer {
		responseBuffers.Put(buffer)
	}
}

// buffers are for bodies of requests, responseBuffers for those of responses.
var (
	buffers         = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	responseBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

// maxBuffer is the size of the largest buffer that is kept, in bytes.
const maxBuffer = 1 << 20

// A failing reader returns the error that has ended another one; nil: it is at its end.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }
