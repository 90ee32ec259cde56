package exchange

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// MaxBatch is how many submissions a batch has at most.
const MaxBatch = 500

// A Submission is a request for a job.
type Submission struct {
	RequestID   string          `json:"request_id,omitempty" maxLength:"255" doc:"The request's key: 1 to 255 visible ASCII characters."`
	Workspace   string          `json:"workspace_id,omitempty" maxLength:"128" doc:"The workspace of the job. Default: default."`
	Workflow    string          `json:"workflow,omitempty" maxLength:"256" doc:"NAME or NAME@VERSION of a registered workflow." example:"nightly@3"`
	Source      string          `json:"source,omitempty" doc:"The text of a workflow file, in YAML."`
	Definition  json.RawMessage `json:"definition,omitempty" doc:"A definition in its canonical form, as get-job-definition returns it."`
	Inputs      json.RawMessage `json:"inputs,omitempty" doc:"An object: the inputs, by name."`
	Description string          `json:"task_description,omitempty" maxLength:"4096" doc:"What the job is for, for people."`
	Priority    int             `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"Each point is worth a minute of waiting."`
	Parent      string          `json:"parent_job_id,omitempty" maxLength:"64" doc:"The job of the same workspace below which this one is. It must not have ended; canceling it cancels this one." example:"j_019ac1f0a3c47d5e8f00112233445566"`
	Depth       *int            `json:"depth,omitempty" minimum:"0" maximum:"5" doc:"The depth that the job has to have: 0, or that of its parent and 1."`
	WorkerCount int             `json:"worker_count,omitempty" minimum:"1" maximum:"10" doc:"At most this many steps at once. Default: as the workflow says."`
	Metadata    json.RawMessage `json:"metadata,omitempty" doc:"An object of at most 16 KiB, kept with the job. The names dir and rerun are reserved."`
	Traceparent string          `json:"traceparent,omitempty" maxLength:"256" doc:"The place in a trace that the job belongs to, as W3C Trace Context has it. It is no part of the request."`
}

// A Batch is a request for many jobs.
type Batch struct {
	RequestID string       `json:"request_id,omitempty" maxLength:"255" doc:"The request's key: 1 to 255 visible ASCII characters. It belongs to the workspace of the first job."`
	Jobs      []Submission `json:"jobs" minItems:"1" maxItems:"500"`
}

// An Outcome is what became of one submission of a batch: a receipt or a problem.
type Outcome struct {
	Receipt *pawl.Receipt   `json:"receipt"`
	Problem json.RawMessage `json:"problem"`
}

// Outcomes is the response to a batch.
type Outcomes struct {
	Items []Outcome `json:"items"`
}

// maxMetadata is how many bytes of metadata a quick batch has at most, so that it stays below the maxValues
// of package api.
const maxMetadata = 100_000

// QuickSubmission reads a submission that is written as usual and within all limits of its schema. It
// returns nil for any other.
func QuickSubmission(text []byte) *Submission {
	s, to := scanOf(text), new(Submission)
	s.submission(to, new(Submission))
	if !s.end() || len(to.Metadata) > maxMetadata {
		return nil
	}
	return to
}

// QuickBatch reads a batch that is written as usual and within all limits of its schema. It returns nil
// for any other.
func QuickBatch(text []byte) *Batch {
	s, b, metadata := scanOf(text), new(Batch), 0
	s.object(func(name []byte) {
		switch string(name) {
		case "request_id":
			b.RequestID = s.short(255)
		case "jobs":
			like := new(Submission)
			s.list(func() {
				b.Jobs = append(b.Jobs, Submission{})
				to := &b.Jobs[len(b.Jobs)-1]
				s.submission(to, like)
				metadata += len(to.Metadata)
				s.odd = s.odd || len(b.Jobs) > MaxBatch
				like = to
			})
		default:
			s.odd = true
		}
	})
	if !s.end() || len(b.Jobs) == 0 || metadata > maxMetadata {
		return nil
	}
	return b
}

// submission reads a submission. It shares texts with another one: those of a batch are often alike.
func (s *scan) submission(to, like *Submission) {
	s.object(func(name []byte) {
		switch string(name) {
		case "request_id":
			to.RequestID = s.short(255)
		case "workspace_id":
			to.Workspace = s.shortAlike(like.Workspace, 128)
		case "workflow":
			to.Workflow = s.shortAlike(like.Workflow, 256)
		case "source":
			to.Source = s.alike(like.Source)
		case "definition":
			to.Definition = s.same(like.Definition)
		case "inputs":
			to.Inputs = s.same(like.Inputs)
		case "task_description":
			to.Description = s.shortAlike(like.Description, 4096)
		case "priority":
			to.Priority = s.signed(1000)
		case "parent_job_id":
			to.Parent = s.shortAlike(like.Parent, 64)
		case "depth":
			depth := int(s.within(0, 5))
			to.Depth = &depth
		case "worker_count":
			to.WorkerCount = int(s.within(1, 10))
		case "metadata":
			to.Metadata = s.same(like.Metadata)
		case "traceparent":
			to.Traceparent = s.shortAlike(like.Traceparent, 256)
		default:
			s.odd = true
		}
	})
}

// short reads a string of at most so many bytes.
func (s *scan) short(most int) string { return s.shortAlike("", most) }

// shortAlike is alike for a string of at most so many bytes.
func (s *scan) shortAlike(like string, most int) string {
	text := s.alike(like)
	s.odd = s.odd || len(text) > most
	return text
}

// signed reads an integer from -most to most.
func (s *scan) signed(most int64) int {
	s.next()
	if !s.sign('-') {
		return int(s.within(0, most))
	}
	s.odd = s.odd || s.at == len(s.text) || isSpace(s.text[s.at])
	return -int(s.within(0, most))
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// same reads any value, and returns like if its text is the same. Nobody changes the text.
func (s *scan) same(like json.RawMessage) json.RawMessage {
	s.next()
	if len(like) > 1 && like[0] == '{' && bytes.HasPrefix(s.text[s.at:], like) { // an object has its end in itself
		s.at += len(like)
		return like
	}
	return s.value()
}

// Written reports whether AppendJSON can write the submission: whether all that it has as JSON is JSON.
func (s *Submission) Written() bool { return s.written(new(Submission)) }

// written is Written behind a submission that is.
func (s *Submission) written(like *Submission) bool {
	return isJSON(s.Definition, like.Definition) && isJSON(s.Inputs, like.Inputs) && isJSON(s.Metadata, like.Metadata)
}

// isJSON reports whether a text is empty, or JSON, as like is.
func isJSON(text, like json.RawMessage) bool {
	return len(text) == 0 || bytes.Equal(text, like) || json.Valid(text)
}

// Room returns about how many bytes AppendJSON appends.
func (s *Submission) Room() int {
	return 256 + len(s.Source) + len(s.Definition) + len(s.Inputs) + len(s.Metadata) + len(s.Description)
}

// AppendJSON appends the submission, which is Written. What is JSON already is appended as it is.
func (s *Submission) AppendJSON(to []byte) []byte {
	w := appender(to)
	w.submission(s)
	return w
}

// Written reports whether AppendJSON can write the batch.
func (b *Batch) Written() bool {
	like := new(Submission)
	for i := range b.Jobs {
		if !b.Jobs[i].written(like) {
			return false
		}
		like = &b.Jobs[i]
	}
	return true
}

// Room returns about how many bytes AppendJSON appends.
func (b *Batch) Room() int {
	n := 64
	for i := range b.Jobs {
		n += b.Jobs[i].Room()
	}
	return n
}

// AppendJSON appends the batch, which is Written.
func (b *Batch) AppendJSON(to []byte) []byte {
	w := appender(to)
	w.raw("{")
	if b.RequestID != "" {
		w.raw(`"request_id":`).text(b.RequestID).raw(",")
	}
	w.raw(`"jobs":`)
	list(&w, b.Jobs, func(i int) { w.submission(&b.Jobs[i]) })
	w.raw("}")
	return w
}

func (w *appender) submission(s *Submission) {
	w.raw("{")
	begun := len(*w)
	w.member("request_id", s.RequestID).member("workspace_id", s.Workspace).member("workflow", s.Workflow).member("source", s.Source)
	w.valued("definition", s.Definition).valued("inputs", s.Inputs).member("task_description", s.Description)
	w.number("priority", s.Priority).member("parent_job_id", s.Parent)
	if s.Depth != nil {
		w.raw(`,"depth":`).integer(int64(*s.Depth))
	}
	w.number("worker_count", s.WorkerCount).valued("metadata", s.Metadata).member("traceparent", s.Traceparent)
	if len(*w) > begun { // without the comma before the first member
		*w = slices.Delete(*w, begun, begun+1)
	}
	w.raw("}")
}

// valued appends a member whose value is JSON already, and that is left out if it is empty.
func (w *appender) valued(name string, value json.RawMessage) *appender {
	if len(value) == 0 {
		return w
	}
	return w.raw(`,"`).raw(name).raw(`":`).value(value)
}

// number appends a member that is left out if it is 0.
func (w *appender) number(name string, n int) *appender {
	if n == 0 {
		return w
	}
	return w.raw(`,"`).raw(name).raw(`":`).integer(int64(n))
}

// AppendReceipt appends a receipt as JSON.
func AppendReceipt(to []byte, r *pawl.Receipt) []byte {
	w := appender(to)
	w.raw(`{"id":`).text(r.ID).raw(`,"status":`).text(string(r.Status)).raw(`,"from_state":`)
	if r.From == nil {
		w.raw("null")
	} else {
		w.text(string(*r.From))
	}
	w.raw(`,"to_state":`).text(string(r.To)).raw(`,"sequence":`).integer(r.Sequence).raw(`,"timestamp":`)
	if r.At.IsZero() {
		w.raw("null")
	} else {
		w.raw(`"`).raw(r.At.String()).raw(`"`)
	}
	w.raw(`,"actor":`).text(r.Actor).raw("}")
	return w
}

// QuickReceipt reads the receipt of a new job that is written as usual, or returns nil.
func QuickReceipt(text []byte) *pawl.Receipt {
	s, r := scanOf(text), new(pawl.Receipt)
	s.receipt(r, new(stamped))
	if !s.end() {
		return nil
	}
	return r
}

// QuickOutcomes reads the response to a batch that is written as usual, or returns nil.
func QuickOutcomes(text []byte) *Outcomes {
	s, o, like := scanOf(text), new(Outcomes), new(stamped)
	s.object(func(name []byte) {
		if s.odd = s.odd || string(name) != "items"; s.odd {
			return
		}
		s.list(func() {
			var item Outcome
			s.object(func(name []byte) {
				switch string(name) {
				case "receipt":
					item.Receipt = new(pawl.Receipt)
					s.receipt(item.Receipt, like)
				case "problem":
					item.Problem = s.value()
				default:
					s.odd = true
				}
			})
			o.Items = append(o.Items, item)
		})
	})
	if !s.end() {
		return nil
	}
	return o
}

// stamped is a receipt together with the text of its time.
type stamped struct {
	pawl.Receipt
	at string
}

// receipt reads the receipt of a new entity. It shares texts with another one.
func (s *scan) receipt(to *pawl.Receipt, like *stamped) {
	s.object(func(name []byte) {
		switch string(name) {
		case "id":
			to.ID = s.string()
		case "status":
			to.Status = state(s, like.Status)
		case "from_state":
			s.next()
			s.word("null")
		case "to_state":
			to.To = state(s, like.To)
		case "sequence":
			to.Sequence = s.integer()
		case "timestamp":
			to.At = s.timestamp(like)
		case "actor":
			to.Actor = s.alike(like.Actor)
		default:
			s.odd = true
		}
	})
	like.Receipt = *to
}

func state(s *scan, like machine.State) machine.State { return machine.State(s.alike(string(like))) }

// timestamp reads a time, which is often that of another receipt.
func (s *scan) timestamp(like *stamped) (at pawl.Timestamp) {
	text := s.plain()
	if like.at != "" && string(text) == like.at {
		return like.At
	}
	if like.at = string(text); at.UnmarshalJSON([]byte(`"`+like.at+`"`)) != nil {
		s.odd = true
	}
	return at
}
