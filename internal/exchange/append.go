package exchange

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// An appender writes JSON without reflection: what encoding/json writes, HTML not escaped,
// but for white space within values that are JSON already.
type appender []byte

// AppendJSON appends the answer.
func (a *Answer) AppendJSON(to []byte) []byte {
	w := appender(to)
	w.raw(`{"state":`).text(a.State).raw(`,"steps":`)
	list(&w, a.Steps, func(i int) { w.step(&a.Steps[i]) })
	w.raw(`,"results":`)
	list(&w, a.Results, func(i int) { w.text(a.Results[i]) })
	w.raw(`,"stops":`)
	list(&w, a.Stops, func(i int) { w.raw("{").claim(a.Stops[i]).raw("}") })
	w.raw(`,"gone":`)
	list(&w, a.Gone, func(i int) { w.raw("{").claim(a.Gone[i]).raw("}") })
	if a.More {
		w.raw(`,"more":true`)
	}
	w.raw(`,"next_ms":`).integer(a.NextMS).raw("}")
	return w
}

// Written reports whether AppendJSON can write the request: whether all that it has as JSON is JSON.
func (r *Request) Written() bool {
	return !slices.ContainsFunc(r.Reports, func(r Report) bool {
		return len(r.Output) > 0 && !json.Valid(r.Output) || r.Error != nil && len(r.Error.Metadata) > 0 && !json.Valid(r.Error.Metadata)
	})
}

// Room returns about how many bytes AppendJSON appends: few requests need more.
func (r *Request) Room() int {
	n := 128 + 128*len(r.Reports) + 80*len(r.Holding)
	for i := range r.Reports {
		n += len(r.Reports[i].Output)
	}
	return n
}

// AppendJSON appends the request, which is Written. An output is appended as it is, with its white space.
func (r *Request) AppendJSON(to []byte) []byte {
	w := appender(to)
	w.raw(`{"turn":`).integer(r.Turn)
	if len(r.Reports) > 0 {
		w.raw(`,"reports":`)
		list(&w, r.Reports, func(i int) { w.report(&r.Reports[i]) })
	}
	if r.Free != 0 {
		w.raw(`,"free":`).integer(int64(r.Free))
	}
	if r.WaitMS != nil {
		w.raw(`,"wait_ms":`).integer(*r.WaitMS)
	}
	if r.Holding != nil {
		w.raw(`,"holding":`)
		list(&w, r.Holding, func(i int) { w.raw("{").claim(r.Holding[i]).raw("}") })
	}
	w.raw("}")
	return w
}

func (w *appender) report(r *Report) {
	w.raw("{").claim(r.Claim).raw(`,"outcome":`).text(r.Outcome)
	if len(r.Output) > 0 {
		w.raw(`,"output":`).value(r.Output)
	}
	if r.Error != nil {
		w.raw(`,"error":`).any(r.Error)
	}
	if r.AfterMS != 0 {
		w.raw(`,"after_ms":`).integer(r.AfterMS)
	}
	w.raw("}")
}

func (w *appender) step(s *Step) {
	w.raw("{").claim(s.Claim).raw(`,"job_id":`).text(s.JobID).raw(`,"key":`).text(s.Key).raw(`,"workflow":`).text(s.Workflow)
	w.raw(`,"attempt":`).integer(int64(s.Attempt)).raw(`,"queue":`).text(s.Queue).raw(`,"handler":`).text(s.Handler)
	w.raw(`,"work":`).work(&s.Work).raw(`,"input":`)
	if s.Input == nil {
		w.raw("null")
	}
	w.value(s.Input).member("output_mode", s.OutputMode).raw(`,"timeout_ms":`).integer(s.TimeoutMS)
	if len(s.Permanent) > 0 {
		w.raw(`,"permanent_exit_codes":`).any(s.Permanent)
	}
	w.member("isolation", s.Isolation).member("dir", s.Dir).member("traceparent", s.Traceparent)
	if s.Redelivered {
		w.raw(`,"redelivered":true`)
	}
	w.raw("}")
}

// work appends what a step does. What has only a kind and an input is common.
func (w *appender) work(k *Work) *appender {
	if len(k.Command)+len(k.Run)+len(k.Env)+len(k.Dir) > 0 || k.HTTP != nil {
		return w.any(k)
	}
	w.raw(`{"kind":`).text(k.Kind)
	if len(k.With) > 0 {
		w.raw(`,"with":`).value(k.With)
	}
	return w.raw("}")
}

func (w *appender) claim(c Claim) *appender {
	return w.raw(`"step_id":`).text(c.StepID).raw(`,"claim":`).integer(int64(c.Claim))
}

// member appends a member that is left out if it is empty.
func (w *appender) member(name, value string) *appender {
	if value == "" {
		return w
	}
	return w.raw(`,"`).raw(name).raw(`":`).text(value)
}

func (w *appender) raw(text string) *appender {
	*w = append(*w, text...)
	return w
}

// value appends a value that is JSON already.
func (w *appender) value(text []byte) *appender {
	*w = append(*w, text...)
	return w
}

func (w *appender) integer(n int64) *appender {
	*w = strconv.AppendInt(*w, n, 10)
	return w
}

// text appends a string.
func (w *appender) text(s string) *appender {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return w.any(s)
		}
	}
	return w.raw(`"`).raw(s).raw(`"`)
}

// any appends a value by encoding/json. It is one that can be written.
func (w *appender) any(v any) *appender {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return w.raw(string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
}

// list appends an array of the items that item appends.
func list[T any](w *appender, items []T, item func(i int)) {
	if items == nil {
		w.raw("null")
		return
	}
	w.raw("[")
	for i := range items {
		if i > 0 {
			w.raw(",")
		}
		item(i)
	}
	w.raw("]")
}
