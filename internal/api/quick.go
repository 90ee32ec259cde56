package api

import (
	"bytes"
	"cmp"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/exchange"
)

// An exchanging is the request of an exchange.
type exchanging struct {
	WorkerPath
	Body exchange.Request
}

// Resolve takes over the body if it was read quickly.
func (in *exchanging) Resolve(c huma.Context) []error {
	if q, is := c.(*quickContext); is {
		in.Body = *q.request
	}
	return nil
}

// A quickContext is a request to exchange whose body was read. In its place the HTTP library
// reads one that it always takes.
type quickContext struct {
	humaContext
	request *exchange.Request
}

// Unwrap is for humago.Unwrap.
func (q *quickContext) Unwrap() huma.Context { return q.humaContext }

// BodyReader returns the body that is always taken.
func (q *quickContext) BodyReader() io.Reader { return strings.NewReader(`{"turn":1}`) }

// A readContext is a request whose body was read, and is to be read again.
type readContext struct {
	humaContext
	body io.Reader
}

// Unwrap is for humago.Unwrap.
func (r *readContext) Unwrap() huma.Context { return r.humaContext }

// BodyReader returns the body.
func (r *readContext) BodyReader() io.Reader { return r.body }

// quickly reads the bodies of exchanges in one pass if they are written as usual. The HTTP
// library, which reads each body several times and by reflection, gets the others, and so makes
// all errors.
func quickly(add func(huma.API, huma.Operation)) func(huma.API, huma.Operation) {
	return func(to huma.API, o huma.Operation) {
		o.Middlewares = append(o.Middlewares, func(c huma.Context, next func(huma.Context)) {
			_ = c.SetReadDeadline(time.Now().Add(o.BodyReadTimeout)) // as the library does
			buffer := buffers.Get().(*bytes.Buffer)
			_, err := buffer.ReadFrom(io.LimitReader(c.BodyReader(), o.MaxBodyBytes))
			request := exchange.QuickRequest(buffer.Bytes())
			if err != nil || request == nil {
				next(&readContext{c, io.MultiReader(buffer, failing{err})})
				return
			}
			if buffer.Cap() <= maxBuffer {
				buffer.Reset()
				buffers.Put(buffer)
			}
			next(&quickContext{c, request}) // it may wait
		})
		add(to, o)
	}
}

// buffers are for bodies.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer is the size of the largest buffer that is kept, in bytes.
const maxBuffer = 1 << 20

// A failing reader returns the error that has ended another one; nil: it is at its end.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }
