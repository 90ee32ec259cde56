package tracing

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// A Kind is the kind of a span, as OTLP numbers them.
type Kind int

// The kinds that are used.
const (
	Internal Kind = 1
	Consumer Kind = 5
)

// A Span is something that is over.
type Span struct {
	Context
	Parent     SpanID // zero: none
	Name       string
	Kind       Kind
	Begin, End time.Time
	Attributes map[string]any // texts and ints
	Error      string         // why it failed; empty: it has not
}

// Limits of an exporter.
const (
	queued    = 4096 // spans that wait; others are dropped
	batchSize = 512
	wait      = 5 * time.Second  // for a batch to fill
	sendTime  = 10 * time.Second // for a collector to take it
)

// An Exporter sends spans to a collector, in batches, beside the work. What the collector does
// not take is dropped. A nil Exporter exports nothing.
type Exporter struct {
	url     string
	headers map[string]string
	service string
	version string
	log     *slog.Logger
	queue   chan func(context.Context) *Span
	sent    atomic.Int64
	dropped atomic.Int64

	end   context.CancelFunc
	once  sync.Once
	loops sync.WaitGroup
}

// FromEnv returns the exporter that the variables of OpenTelemetry configure, or nil if they
// configure none: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, _HEADERS,
// OTEL_SERVICE_NAME, OTEL_TRACES_EXPORTER and OTEL_SDK_DISABLED. Close ends it.
func FromEnv(getenv func(string) string, version string, log *slog.Logger) (*Exporter, error) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return nil, nil
	default:
		return nil, pawl.Errorf(pawl.Invalid, "OTEL_TRACES_EXPORTER %q: want otlp or none", exporter)
	}
	name, endpoint := prefix+"TRACES_ENDPOINT", getenv(prefix+"TRACES_ENDPOINT")
	if endpoint == "" {
		name, endpoint = prefix+"ENDPOINT", getenv(prefix+"ENDPOINT")
		if endpoint == "" {
			return nil, nil
		}
		endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, pawl.Errorf(pawl.Invalid, "%s: want a URL of http or https, such as http://127.0.0.1:4318", name)
	}
	if p := cmp.Or(getenv(prefix+"TRACES_PROTOCOL"), getenv(prefix+"PROTOCOL")); p != "" && !strings.HasPrefix(p, "http/") {
		return nil, pawl.Errorf(pawl.Invalid, "%sPROTOCOL %q: want http/json, or http/protobuf for the same collectors; the port for HTTP is mostly 4318", prefix, p)
	}
	headers, err := headersOf(cmp.Or(getenv(prefix+"TRACES_HEADERS"), getenv(prefix+"HEADERS")))
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	e := &Exporter{url: endpoint, headers: headers, service: cmp.Or(getenv("OTEL_SERVICE_NAME"), "pawl"), version: version, log: log,
		queue: make(chan func(context.Context) *Span, queued), end: end} // queued: bursts, while the collector is slow
	e.loops.Go(func() { e.run(ctx) })
	return e, nil
}

// headersOf reads a list of NAME=VALUE, encoded as in a URL. An error does not show it: it may
// have a secret.
func headersOf(list string) (map[string]string, error) {
	headers := map[string]string{}
	for _, pair := range strings.Split(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		value, err := url.PathUnescape(value)
		if !found || err != nil || name == "" {
			return nil, pawl.Errorf(pawl.Invalid, "OTEL_EXPORTER_OTLP_HEADERS: want NAME=VALUE, several with commas")
		}
		headers[strings.TrimSpace(name)] = value
	}
	return headers, nil
}

// Export sends the span that make returns, unless that is nil. It is called later, and may read
// what the span is about. If too many wait, it is dropped.
func (e *Exporter) Export(make func(context.Context) *Span) {
	if e == nil {
		return
	}
	select {
	case e.queue <- make:
	default:
		e.dropped.Add(1)
	}
}

// Stats are counts of the spans of an exporter.
type Stats struct {
	Sent    int64 // that the collector has taken
	Dropped int64 // that it has not taken, or that did not fit into the queue
}

// Stats returns what has become of the spans so far.
func (e *Exporter) Stats() Stats { return Stats{Sent: e.sent.Load(), Dropped: e.dropped.Load()} }

// Close sends what waits, for a few seconds at most, and ends the exporter.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	e.once.Do(e.end)
	e.loops.Wait()
}

// run sends batches until ctx ends, and then what is left.
func (e *Exporter) run(ctx context.Context) {
	last, cancel := context.WithCancel(context.Background())
	defer cancel()
	failing := false
	send := func(batch []*Span) {
		if len(batch) == 0 {
			return
		}
		err, n := e.send(last, batch), &e.sent
		if err != nil {
			n = &e.dropped
			if !failing {
				e.log.Warn("spans are dropped; the next ones are tried", "spans", len(batch), "error", err)
			}
		}
		n.Add(int64(len(batch)))
		failing = err != nil
	}
	for ctx.Err() == nil {
		send(e.collect(ctx, last))
	}
	time.AfterFunc(3*time.Second, cancel)
	for last.Err() == nil && len(e.queue) > 0 {
		send(e.collect(ctx, last))
	}
	e.dropped.Add(int64(len(e.queue)))
}

// collect returns the next batch: a full one, or what there is a while after the first span, or
// when ctx ends.
func (e *Exporter) collect(ctx, reading context.Context) (batch []*Span) {
	var full <-chan time.Time
	add := func(make func(context.Context) *Span) {
		if s := make(reading); s != nil {
			batch = append(batch, s)
		}
		if full == nil {
			full = time.After(wait)
		}
	}
	for len(batch) < batchSize {
		select {
		case make := <-e.queue:
			add(make)
			continue
		default:
		}
		select {
		case make := <-e.queue:
			add(make)
		case <-full:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// send makes one request, as OTLP over HTTP has it for JSON.
func (e *Exporter) send(ctx context.Context, batch []*Span) error {
	body, err := json.Marshal(e.message(batch))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range e.headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return err
	}
	if resp.StatusCode > 299 {
		return fmt.Errorf("the collector answered %s", resp.Status)
	}
	return nil
}

type object = map[string]any

// message returns a request of OTLP.
func (e *Exporter) message(batch []*Span) object {
	spans := make([]object, len(batch))
	for i, s := range batch {
		span := object{"traceId": hex.EncodeToString(s.Trace[:]), "spanId": hex.EncodeToString(s.Span[:]), "name": s.Name, "kind": s.Kind,
			"startTimeUnixNano": strconv.FormatInt(s.Begin.UnixNano(), 10), "endTimeUnixNano": strconv.FormatInt(s.End.UnixNano(), 10),
			"attributes": attributes(s.Attributes), "status": object{}}
		if s.Parent != (SpanID{}) {
			span["parentSpanId"] = hex.EncodeToString(s.Parent[:])
		}
		if s.Error != "" {
			span["status"] = object{"code": 2, "message": s.Error}
		}
		spans[i] = span
	}
	return object{"resourceSpans": []object{{
		"resource":   object{"attributes": attributes(object{"service.name": e.service, "service.version": e.version})},
		"scopeSpans": []object{{"scope": object{"name": "pawl", "version": e.version}, "spans": spans}},
	}}}
}

func attributes(of map[string]any) []object {
	list := []object{}
	for name, v := range of {
		value := object{"stringValue": fmt.Sprint(v)}
		if n, is := v.(int); is {
			value = object{"intValue": strconv.Itoa(n)}
		}
		list = append(list, object{"key": name, "value": value})
	}
	return list
}
