package api

import (
	"bufio"
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const (
	maxStreams   = 8                // of records at once
	streamBuffer = 64 << 10         // bytes
	streamTime   = 30 * time.Second // for a client to take them
	ndjson       = "application/x-ndjson"
)

// streams makes the function of an operation that writes lines of JSON one of the HTTP library.
// L is the type of a line. An error before the first line is a problem; later it ends the
// connection, so that a client does not take a part for the whole.
func streams[I, L any](s *Service, do func(context.Context, *I, *bufio.Writer) error) func(huma.API, huma.Operation) {
	return func(to huma.API, o huma.Operation) {
		o.Responses = map[string]*huma.Response{"200": {Description: "Lines of JSON.",
			Content: map[string]*huma.MediaType{ndjson: {Schema: to.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[L](), true, "Line")}}}}
		huma.Register(to, o, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
			select {
			case s.streaming <- struct{}{}:
			default:
				p := Problemf(SlugRateLimited, "%d streams of records are being written, as many as may at once", cap(s.streaming))
				p.RetryAfter = streamTime
				return nil, p
			}
			return &huma.StreamResponse{Body: func(c huma.Context) {
				defer func() { <-s.streaming }()
				_, w := humago.Unwrap(c)
				lines := &lineWriter{c: c, w: w, media: ndjson}
				out := bufio.NewWriterSize(lines, streamBuffer)
				err := do(ctx, in, out)
				if err == nil {
					err = out.Flush()
				}
				switch {
				case err == nil:
					lines.begin()
				case !lines.begun:
					s.problem(ctx, o.OperationID, err).write(w, c.SetStatus)
				default:
					s.Log.Warn("a stream of records was cut", "operation", o.OperationID, "request_id", RequestIDOf(ctx), "error", err)
					panic(http.ErrAbortHandler)
				}
			}}, nil
		})
	}
}

// A lineWriter writes a response, and gives the client time for each part of it.
type lineWriter struct {
	c     huma.Context
	w     http.ResponseWriter
	media string
	begun bool
}

func (l *lineWriter) begin() {
	if !l.begun {
		l.c.SetHeader("Content-Type", l.media)
		l.c.SetStatus(http.StatusOK)
		l.begun = true
	}
}

func (l *lineWriter) Write(p []byte) (int, error) {
	_ = AllowWrite(l.w, streamTime) // without it the time of the whole response applies
	l.begin()
	n, err := l.w.Write(p)
	if err == nil {
		err = http.NewResponseController(l.w).Flush()
	}
	return n, err
}
