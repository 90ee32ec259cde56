package api

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

func (s *Service) stepLogOperations() []operation {
	return []operation{
		{id: "read-step-log", method: get, path: "/api/steps/{id}/log", role: Viewer, good: []int{200, 304}, errors: []Slug{SlugNotFound, SlugRateLimited}, tag: "steps",
			summary: "Read a stream of an attempt", detail: "Reads the bytes that one claim of a step has printed, from an offset on, or the last ones. What was cut in the middle is left out: the header Pawl-Offset has the offset of the first byte, and Pawl-Cut that of the cut, if there is one. It is compressed if Accept-Encoding has gzip.", add: streamsLog(s, s.readStepLog)},
		{id: "search-job-logs", method: get, path: "/api/jobs/{id}/logs/search", role: Viewer, errors: []Slug{SlugNotFound}, tag: "jobs",
			summary: "Find text in the logs of a job", detail: "Finds lines that contain a text, in the order of the logs: of each piece of a log, which has 64 KiB at most, the first 100. A page has 1,000 at most, and reads 16 MiB at most: it may be short, or empty, though there is a next one.", add: does(s, s.searchLogs)},
		{id: "follow-step-log", method: get, path: "/api/steps/{id}/log/follow", role: Viewer, errors: []Slug{SlugNotFound, SlugRateLimited}, tag: "steps",
			summary: "Follow a stream of an attempt", detail: "Streams what a claim of a step prints as server-sent events, from its beginning, until it ends: the event chunk has offset, at and text, and the id CLAIM.STREAM.OFFSET of what follows, with which Last-Event-ID goes on; the event end has the state of the step.", add: s.addStepLog},
	}
}

// A LogRange is a part of a stream of a step.
type LogRange struct {
	StepPath
	Claim    int    `query:"claim" minimum:"0" doc:"Which claim. Default: the last one."`
	Stream   string `query:"stream" default:"stdout" enum:"stdout,stderr,pawl" doc:"The stream."`
	Offset   int64  `query:"offset" minimum:"0" doc:"From this byte of the stream on."`
	Tail     int64  `query:"tail" minimum:"0" doc:"Only so many bytes at the end. 0: all."`
	Download bool   `query:"download" doc:"Let a browser store it as a file."`
	Match    string `header:"If-None-Match" maxLength:"128" doc:"The ETag of an earlier response."`
	Accept   string `header:"Accept-Encoding" maxLength:"256" doc:"gzip, to compress it."`
}

// claim returns the step of a range, with the claim that it is of set.
func (s *Service) claimOf(ctx context.Context, p StepPath, claim *int) (pawl.ID, *jobStep, error) {
	_, v, err := s.step(ctx, p)
	if err != nil {
		return pawl.ID{}, nil, err
	}
	if *claim > v.Claims {
		return pawl.ID{}, nil, pawl.Errorf(pawl.NotFound, "the step has had %d claims, and not %d", v.Claims, *claim)
	}
	if *claim == 0 {
		*claim = v.Claims
	}
	id, err := pawl.ParseID(pawl.StepPrefix, p.ID)
	return id, v, err
}

// pieces calls f with what a stream of a claim has behind a place, and returns the place of the
// last piece. An attempt has 1 MiB of each stream at most.
func (s *Service) pieces(ctx context.Context, step pawl.ID, claim int, stream string, after store.LogPlace, f func(*pawl.Chunk) error) (store.LogPlace, error) {
	for {
		page, err := s.Engine.StepLog(ctx, step, claim, after)
		if err != nil || len(page) == 0 {
			return after, err
		}
		for i := range page {
			if after = store.PlaceOf(&page[i]); page[i].Stream == stream {
				if err := f(&page[i]); err != nil {
					return after, err
				}
			}
		}
	}
}

// A logText is a part of a stream.
type logText struct {
	first, cut, end int64
	data            []byte
}

func (l *logText) add(c *pawl.Chunk, from int64) {
	data, at := c.Data, c.Offset
	if behind := at + int64(len(data)); behind <= max(from, l.end) {
		return
	}
	if skip := max(from, l.end) - at; skip > 0 {
		data, at = data[skip:], at+skip
	}
	switch {
	case len(l.data) == 0:
		l.first = at
	case at > l.end && l.cut == 0:
		l.cut = l.end
	}
	l.data, l.end = append(l.data, data...), at+int64(len(data))
}

func (s *Service) readStepLog(ctx context.Context, in *LogRange) (*logText, http.Header, error) {
	id, v, err := s.claimOf(ctx, in.StepPath, &in.Claim)
	if err != nil {
		return nil, nil, err
	}
	l := &logText{}
	if _, err = s.pieces(ctx, id, in.Claim, in.Stream, store.LogPlace{}, func(c *pawl.Chunk) error { l.add(c, in.Offset); return nil }); err != nil {
		return nil, nil, err
	}
	if n := int64(len(l.data)); in.Tail > 0 && n > in.Tail {
		l.data, l.first = l.data[n-in.Tail:], l.end-in.Tail
		if l.cut < l.first {
			l.cut = 0
		}
	}
	h := http.Header{"Pawl-Offset": {fmt.Sprint(l.first)}, "Etag": {fmt.Sprintf(`"%d.%s.%d.%d"`, in.Claim, in.Stream, l.first, l.end)}}
	if l.cut > 0 {
		h.Set("Pawl-Cut", fmt.Sprint(l.cut))
	}
	if in.Download {
		name := strings.NewReplacer("[", "-", "]", "", `"`, "", "\\", "").Replace(v.Key)
		h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.%d.%s.log"`, name, in.Claim, in.Stream))
		h.Set("Content-Security-Policy", "sandbox")
	}
	return l, h, nil
}

// streamsLog makes read-step-log an operation of the HTTP library.
func streamsLog(s *Service, do func(context.Context, *LogRange) (*logText, http.Header, error)) func(huma.API, huma.Operation) {
	return func(to huma.API, o huma.Operation) {
		o.Responses = map[string]*huma.Response{"200": {Description: "Bytes.", Content: map[string]*huma.MediaType{octets: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}}
		huma.Register(to, o, func(ctx context.Context, in *LogRange) (*huma.StreamResponse, error) {
			l, header, err := do(ctx, in)
			if err != nil {
				return nil, s.problem(ctx, o.OperationID, err)
			}
			return &huma.StreamResponse{Body: func(c huma.Context) {
				for name := range header {
					c.SetHeader(name, header.Get(name))
				}
				if matches(in.Match, header.Get("Etag")) {
					c.SetStatus(http.StatusNotModified)
					return
				}
				c.SetHeader("Content-Type", octets)
				c.SetHeader("Vary", "Accept-Encoding")
				out := c.BodyWriter()
				if strings.Contains(in.Accept, "gzip") && len(l.data) >= 1<<10 {
					c.SetHeader("Content-Encoding", "gzip")
					z := gzip.NewWriter(out)
					defer func() { _ = z.Close() }() // the client may be gone
					out = z
				}
				c.SetStatus(http.StatusOK)
				_, _ = io.Copy(out, strings.NewReader(string(l.data))) // likewise
			}}, nil
		})
	}
}

// followEvery is how often a followed stream is read.
const followEvery = 500 * time.Millisecond

// FollowInput is the input of follow-step-log.
type FollowInput struct {
	StepPath
	Claim  int    `query:"claim" minimum:"0" doc:"Which claim. Default: the last one."`
	Stream string `query:"stream" default:"stdout" enum:"stdout,stderr,pawl" doc:"The stream."`
	Last   string `header:"Last-Event-ID" maxLength:"128" doc:"The id of an event, as a browser sends it when it connects again."`
}

// from returns the offset at which a stream is followed.
func (in *FollowInput) from() (offset int64, err error) {
	if in.Last == "" {
		return 0, nil
	}
	var claim int
	parts := strings.Split(in.Last, ".")
	if len(parts) == 3 {
		_, err = fmt.Sscan(parts[0]+" "+parts[2], &claim, &offset)
	}
	if len(parts) != 3 || err != nil || claim < 1 || offset < 0 {
		return 0, pawl.Errorf(pawl.Invalid, "Last-Event-ID %.50q: want the id of an event of this stream", in.Last)
	}
	in.Claim, in.Stream = claim, parts[1]
	return offset, nil
}

// addStepLog declares follow-step-log.
func (s *Service) addStepLog(to huma.API, o huma.Operation) {
	o.Responses = map[string]*huma.Response{"200": {Description: "Server-sent events: chunk, and end.",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString, Description: "Events, as the HTML standard describes them."}}}}}
	huma.Register(to, o, func(ctx context.Context, in *FollowInput) (*huma.StreamResponse, error) {
		offset, err := in.from()
		var id pawl.ID
		if err == nil {
			id, _, err = s.claimOf(ctx, in.StepPath, &in.Claim)
		}
		if err != nil {
			return nil, s.problem(ctx, o.OperationID, err)
		}
		select {
		case s.flowing <- struct{}{}:
		default:
			p := Problemf(SlugRateLimited, "%d streams of bytes are open, as many as may be at once", cap(s.flowing))
			p.RetryAfter = streamTime
			return nil, p
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer func() { <-s.flowing }()
			_, w := humago.Unwrap(c)
			for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
				c.SetHeader(name, value)
			}
			c.SetStatus(http.StatusOK)
			e := &eventWriter{w: w, control: http.NewResponseController(w)}
			if err := s.followLog(ctx, e, in, id, offset); err != nil {
				e.bye()
			}
		}}, nil
	})
}

// followLog writes what a claim prints until it has ended, and all of it is written.
func (s *Service) followLog(ctx context.Context, e *eventWriter, in *FollowInput, id pawl.ID, offset int64) error {
	var after store.LogPlace
	e.quiet = time.Now().Add(eventQuiet)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		_, v, err := s.step(ctx, in.StepPath) // before its log: what comes later is read again
		if err != nil {
			return err
		}
		ended := v.Claims != in.Claim || v.Status != lifecycle.StepInProgress
		after, err = s.pieces(ctx, id, in.Claim, in.Stream, after, func(c *pawl.Chunk) error {
			if behind := c.Offset + int64(len(c.Data)); behind > offset {
				text := c.Data[max(0, offset-c.Offset):]
				e.event("chunk", fmt.Sprintf("%d.%s.%d", in.Claim, in.Stream, behind), jsonOf(logPiece{behind - int64(len(text)), pawl.Timestamp(c.At), string(text)}))
				offset = behind
			}
			return e.failed
		})
		if err != nil {
			return err
		}
		if ended {
			e.event("end", "", jsonOf(map[string]any{"status": v.Status, "claims": v.Claims}))
			return e.flush()
		}
		if err := e.settle(""); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A logPiece is a piece of a stream.
type logPiece struct {
	Offset int64          `json:"offset"`
	At     pawl.Timestamp `json:"at"`
	Text   string         `json:"text"`
}

// jsonOf returns a value of this package as JSON.
func jsonOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// A found is a line of a log that contains a text.
type found struct {
	Step   string `json:"step" doc:"The key of the step."`
	Claim  int    `json:"claim"`
	Stream string `json:"stream"`
	Offset int64  `json:"offset" doc:"Of the text, in the stream."`
	Line   string `json:"line" doc:"The line, or 200 bytes around the text of a longer one."`
}

// Bounds of a search in logs.
const (
	maxSearchedLog = 16 << 20 // bytes
	searchedAtOnce = 10       // pieces
	maxFound       = 100      // lines of a piece
	maxLine        = 200      // bytes beside the text
)

func (s *Service) searchLogs(ctx context.Context, in *struct {
	JobPath
	Cursor string `query:"cursor" maxLength:"2048" doc:"next of the page before, with the same other parameters."`
	Text   string `query:"q" required:"true" minLength:"1" maxLength:"200" doc:"The text, byte by byte."`
	Step   string `query:"step" maxLength:"256" doc:"Only of this step, by its key."`
}) (*body[page[found]], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	w := Window{Limit: searchedAtOnce, Cursor: in.Cursor}
	return placedPage(w, []any{"search", in.ID, in.Text, in.Step}, func(after string, _ int) (all []found, next string, err error) {
		f := finder{text: in.Text}
		for next = after; ; {
			var lines []pawl.LogLine
			if lines, next, err = s.Engine.LogPage(ctx, id, pawl.LogQuery{Step: in.Step, After: next, Limit: searchedAtOnce}); err != nil {
				return nil, "", err
			}
			for i := range lines {
				f.add(&lines[i])
			}
			if next == "" || len(f.all) >= maxFound || f.bytes >= maxSearchedLog {
				return f.all, next, nil
			}
		}
	})
}

// A finder looks for a text in pieces of logs, also where two pieces of a stream meet.
type finder struct {
	text   string
	bytes  int
	all    []found
	before pawl.LogLine // the end of the piece before
}

func (f *finder) add(l *pawl.LogLine) {
	f.bytes += len(l.Text)
	piece := *l
	if b := &f.before; b.Step == l.Step && b.Claim == l.Claim && b.Stream == l.Stream && b.Offset+int64(len(b.Text)) == l.Offset {
		piece.Offset, piece.Text = b.Offset, b.Text+l.Text
	}
	for from, most := 0, len(f.all)+maxFound; len(f.all) < most; {
		i := strings.Index(piece.Text[from:], f.text)
		if i < 0 {
			break
		}
		i += from
		f.all = append(f.all, found{l.Step, l.Claim, l.Stream, piece.Offset + int64(i), lineAround(piece.Text, i, len(f.text))})
		end := strings.IndexByte(piece.Text[i:], '\n')
		if end < 0 {
			break
		}
		from = i + end
	}
	f.before = piece
	if keep := len(f.text) - 1; len(piece.Text) > keep { // what was looked through cannot be found again
		f.before.Offset, f.before.Text = piece.Offset+int64(len(piece.Text)-keep), piece.Text[len(piece.Text)-keep:]
	}
}

// lineAround returns the line of a text that is at a place, without what is far away.
func lineAround(all string, at, length int) string {
	first := max(strings.LastIndexByte(all[:at], '\n')+1, at-maxLine/2)
	last := at + length
	if end := strings.IndexByte(all[last:], '\n'); end >= 0 {
		last += min(end, maxLine/2)
	} else {
		last = min(len(all), last+maxLine/2)
	}
	return strings.ToValidUTF8(all[first:last], "\ufffd")
}
