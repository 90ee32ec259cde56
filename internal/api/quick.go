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

	"github.com/pawl-dev/pawl"
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

// quickly does requests that are written as usual without the HTTP library, which reads each body
// several times and by reflection. The library gets the others, and so makes all errors of form: a body
// of MaxBodyBytes is too large for it. read returns the input for a body, or nil if it is not as usual;
// over is called when it was done, and write sends the response.
func quickly[I, O any](s *Service, do func(context.Context, *I) (*O, error), read func(huma.Context, *http.Request, []byte) *I, write func(huma.Context, http.ResponseWriter, *O), over func(*I)) func(huma.API, huma.Operation) {
	slowly := does(s, do)
	return func(to huma.API, o huma.Operation) {
		o.Middlewares = append(o.Middlewares, func(c huma.Context, next func(huma.Context)) {
			_ = c.SetReadDeadline(time.Now().Add(o.BodyReadTimeout)) // as the library does
			buffer := buffers.Get().(*bytes.Buffer)
			_, err := buffer.ReadFrom(io.LimitReader(c.BodyReader(), o.MaxBodyBytes))
			r, w := humago.Unwrap(c)
			var in *I
			if err == nil && int64(buffer.Len()) < o.MaxBodyBytes && isUsual(r) {
				in = read(c, r, buffer.Bytes())
			}
			if in == nil {
				next(&readContext{c, io.MultiReader(buffer, failing{err})})
				return
			}
			_ = c.SetReadDeadline(time.Time{}) // likewise
			if buffer.Cap() <= maxBuffer {
				buffer.Reset()
				buffers.Put(buffer)
			}
			out, err := do(r.Context(), in) // it may wait
			over(in)
			if err != nil {
				s.problem(r.Context(), o.OperationID, err).send(w, c.SetStatus) // as the library does
				return
			}
			write(c, w, out)
		})
		slowly(to, o)
	}
}

// exchanges does exchanges.
func (s *Service) exchanges() func(huma.API, huma.Operation) {
	return quickly(s, s.exchange, func(c huma.Context, _ *http.Request, text []byte) *exchanging {
		request := exchange.QuickRequest(text)
		if request == nil {
			return nil
		}
		return &exchanging{WorkerPath{c.Param("id")}, *request}
	}, func(c huma.Context, w http.ResponseWriter, out *body[exchange.Answer]) {
		writeResponse(c, w, http.StatusOK, &out.Body)
		out.Body.Over()
	}, func(in *exchanging) { in.Body.Over() })
}

// submitsJob submits a job.
func (s *Service) submitsJob() func(huma.API, huma.Operation) {
	return quickly(s, s.submitJob, func(_ huma.Context, r *http.Request, text []byte) *submitRequest {
		key, usual := keyOf(r)
		trace := r.Header.Get("Traceparent")
		if !usual || len(trace) > maxTraceparent {
			return nil
		}
		body := exchange.QuickSubmission(text)
		if body == nil {
			return nil
		}
		return &submitRequest{key, trace, *body}
	}, func(c huma.Context, w http.ResponseWriter, out *created) {
		c.SetHeader("Location", out.Location)
		replayedTo(c, out.Replayed)
		writeResponse(c, w, out.Status, (*receiptBody)(&out.Body))
	}, func(*submitRequest) {})
}

// submitsJobs submits many jobs.
func (s *Service) submitsJobs() func(huma.API, huma.Operation) {
	return quickly(s, s.submitJobs, func(_ huma.Context, r *http.Request, text []byte) *batchRequest {
		key, usual := keyOf(r)
		if !usual {
			return nil
		}
		body := exchange.QuickBatch(text)
		if body == nil {
			return nil
		}
		return &batchRequest{key, *body}
	}, func(c huma.Context, w http.ResponseWriter, out *batchResponse) {
		replayedTo(c, out.Replayed)
		writeResponse(c, w, http.StatusOK, out.Body)
	}, func(*batchRequest) {})
}

const (
	maxKey         = 255 // bytes of a key in a header
	maxTraceparent = 256
)

// keyOf returns the key that a request has in its header, and reports whether that is of usual length.
func keyOf(r *http.Request) (k Key, usual bool) {
	k.Key = r.Header.Get("Idempotency-Key")
	return k, len(k.Key) <= maxKey
}

// replayedTo sets the header of a replay.
func replayedTo(c huma.Context, replayed string) {
	if replayed != "" {
		c.SetHeader("Idempotency-Replayed", replayed)
	}
}

// isUsual reports whether a request has no parameters, and takes JSON without naming others.
func isUsual(r *http.Request) bool {
	accept := r.Header["Accept"]
	return r.URL.RawQuery == "" && (len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "application/json"))
}

// appends is a body of a response that is written without reflection.
type appends interface{ AppendJSON(to []byte) []byte }

// A receiptBody is a receipt as the body of a response.
type receiptBody pawl.Receipt

// AppendJSON appends the receipt.
func (r *receiptBody) AppendJSON(to []byte) []byte {
	return exchange.AppendReceipt(to, (*pawl.Receipt)(r))
}

// writeResponse sends a response with a body.
func writeResponse(c huma.Context, w http.ResponseWriter, status int, a appends) {
	withText(a, func(text []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		c.SetStatus(status)
		_, _ = w.Write(text) // the client is gone
	})
}

// withText calls f with the JSON of a body, which is gone when f returns.
func withText(a appends, f func(text []byte)) {
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
