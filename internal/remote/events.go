package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	eventSilence  = 45 * time.Second // after which a stream counts as cut: the server says something each 15 s
	maxEventPause = 10 * time.Second // between two connections
	maxEventLine  = 1 << 20          // bytes
)

// Events passes on the events that the filter selects. When the stream is cut it connects again
// and goes on from its last place, until ctx ends. An error of the first connection, and one
// that a repetition does not mend, is returned.
func (e *Engine) Events(ctx context.Context, q pawl.EventFilter, f func(*pawl.Event) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	s := &eventStream{e: e, place: q.After, f: f}
	c := &call{operation: "stream-events", path: "/api/events", query: values("workspace_id", q.Workspace, "job_id", q.Job, "machine", strings.Join(q.Machines, ","), "topics", strings.Join(q.Topics, ","))}
	for _, event := range q.Events {
		c.query.Set("event", strings.TrimPrefix(c.query.Get("event")+","+string(event), ","))
	}
	for pause := e.pause; ; pause = min(2*pause, maxEventPause) {
		err := s.follow(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.refused != nil:
			return s.refused
		case !s.begun || err != nil && pawl.KindOf(err) != pawl.Unavailable:
			return err
		}
		if s.arrived {
			pause = e.pause
		}
		if !wait(ctx, max(s.retry, pause)+rand.N(pause)) {
			return ctx.Err()
		}
	}
}

// An eventStream is a stream of events over several connections.
type eventStream struct {
	e       *Engine
	place   string // to go on from
	f       func(*pawl.Event) error
	refused error         // of f
	begun   bool          // there was a connection
	arrived bool          // something has arrived by the last one
	retry   time.Duration // as the server wants it; 0: it has not said
}

// follow reads one connection until it ends.
func (s *eventStream) follow(ctx context.Context, c *call) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.arrived, s.retry = false, 0; s.place != "" {
		c.query.Set("after", s.place)
	}
	silent := time.AfterFunc(eventSilence, cancel)
	defer silent.Stop()
	return s.e.stream(ctx, c, func(body io.Reader) error {
		s.begun = true
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxEventLine)
		var one message
		for lines.Scan() {
			silent.Reset(eventSilence)
			if s.arrived = true; !one.line(lines.Bytes()) {
				continue
			}
			if err := s.pass(&one); err != nil {
				return err
			}
			one = message{}
		}
		return lines.Err()
	})
}

// pass passes on a message.
func (s *eventStream) pass(m *message) error {
	if m.id != "" {
		s.place = m.id
	}
	if m.retry > 0 {
		s.retry = m.retry
	}
	event := pawl.Event{Type: pawl.EventType(m.event), Token: m.id}
	switch event.Type {
	case pawl.EventTransition:
		if err := json.Unmarshal(m.data, &event); err != nil {
			return &pawl.Error{Kind: pawl.Internal, Message: "the server at " + s.e.base + " has sent an event that is not its JSON", Err: err}
		}
	case pawl.EventGap:
		var gap struct {
			Reason string `json:"reason"`
		}
		if err := json.Unmarshal(m.data, &gap); err != nil {
			return &pawl.Error{Kind: pawl.Internal, Message: "the server at " + s.e.base + " has sent a gap that is not its JSON", Err: err}
		}
		event.Gap = gap.Reason
	case pawl.EventHello:
	default: // a place alone, the end, or what a later server says
		return nil
	}
	s.refused = s.f(&event)
	return s.refused
}

// A message is a server-sent event.
type message struct {
	event, id string
	data      []byte
	retry     time.Duration
}

// line adds a line, and reports whether the message is complete.
func (m *message) line(line []byte) (complete bool) {
	if len(line) == 0 {
		return true
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		m.event = string(value)
	case "id":
		m.id = string(value)
	case "data":
		m.data = append(m.data, value...)
	case "retry":
		if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
			m.retry = min(time.Duration(n)*time.Millisecond, maxEventPause)
		}
	}
	return false
}
