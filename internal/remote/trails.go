package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// stream passes the body of an answer to f while it comes. It is not asked for again.
func (e *Engine) stream(ctx context.Context, c *call, f func(io.Reader) error) error {
	c.method = http.MethodGet
	r, err := e.request(ctx, c, nil)
	if err != nil {
		return err
	}
	response, err := e.http.Do(r)
	if err != nil {
		return e.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is given up
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err != nil {
			return e.unreachable(err)
		}
		return e.errorOf(c, response, text)
	}
	return f(&arriving{response.Body, e})
}

// arriving is a body whose end before its time is an error of the server.
type arriving struct {
	body io.Reader
	e    *Engine
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if err != nil && err != io.EOF {
		err = a.e.unreachable(err)
	}
	return n, err
}

// VerifyTrail checks the trails of a job and its steps, or, for the zero id, all trails. The server
// does the latter beside its requests, and goes on if ctx ends.
func (e *Engine) VerifyTrail(ctx context.Context, job pawl.ID, each func(entries int64)) (*pawl.Verdict, error) {
	if job != (pawl.ID{}) {
		return read[pawl.Verdict](ctx, e, "verify-audit", "/api/audit/verify", "job_id", job.Public(pawl.JobPrefix))
	}
	last := verification{}
	if _, err := e.do(ctx, &call{operation: "start-verification", method: http.MethodPost, path: "/api/audit/verify-all"}, &last); err != nil {
		return nil, err
	}
	for pause := firstLook; last.Status == "running"; pause = min(2*pause, maxLook) {
		if each != nil {
			each(last.Entries)
		}
		if !wait(ctx, pause) {
			return nil, ctx.Err()
		}
		now, err := read[verification](ctx, e, "get-verification", "/api/audit/verify-all")
		switch {
		case err != nil && pawl.KindOf(err) != pawl.NotFound:
			return nil, err
		case err != nil || now.ID != last.ID:
			return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the server at " + e.base + " has not ended the verification: it was started anew, or another server responds now", Hint: "verify again"}
		}
		last = *now
	}
	if last.Verdict == nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the server at " + e.base + " could not verify the trails: " + last.Error}
	}
	return last.Verdict, nil
}

// firstLook and maxLook are the pauses before the server is asked how a verification stands.
const (
	firstLook = 50 * time.Millisecond
	maxLook   = time.Second
)

// A verification is how one stands.
type verification struct {
	ID      string        `json:"id"`
	Status  string        `json:"status"`
	Entries int64         `json:"entries"`
	Verdict *pawl.Verdict `json:"verdict"`
	Error   string        `json:"error"`
}

// ExportTrail writes the rows of these trails as JSON lines.
func (e *Engine) ExportTrail(ctx context.Context, job pawl.ID, w io.Writer) error {
	c := &call{operation: "export-trails", path: "/api/audit/export"}
	if job != (pawl.ID{}) {
		c = &call{operation: "export-job-trail", path: jobPath(job) + "/trail"}
	}
	return e.stream(ctx, c, func(body io.Reader) error {
		_, err := io.Copy(w, body)
		return err
	})
}

// WriteCheckpoint writes the ends of all trails. It needs no temporary file.
func (e *Engine) WriteCheckpoint(ctx context.Context, w io.Writer, _ string) (head *pawl.Checkpoint, err error) {
	err = e.stream(ctx, &call{operation: "write-checkpoint", path: "/api/audit/checkpoint"}, func(body io.Reader) error {
		lines := bufio.NewReader(body)
		first, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		if err := json.Unmarshal(first, &head); err != nil {
			return err
		}
		_, err = io.Copy(w, io.MultiReader(bytes.NewReader(first), lines))
		return err
	})
	return head, err
}

// MovePage is a page of moves.
func (e *Engine) MovePage(ctx context.Context, q pawl.AuditQuery) ([]pawl.Move, string, error) {
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	if len(q.Workspaces) > 1 {
		return nil, "", unsupported("listing moves of several workspaces", "name one, or none for all that the token sees")
	}
	c := call{operation: "query-audit", path: "/api/audit", query: values("entity", q.Entity, "machine", strings.Join(q.Machines, ","), "actor", q.Actor,
		"event", string(q.Event), "state", string(q.State), "workspace_id", strings.Join(q.Workspaces, ","), "from", timeText(q.From), "to", timeText(q.To))}
	return onePage[pawl.Move](ctx, e, c, q.After, q.Limit)
}

// timeText returns a time as a parameter, or nothing for none.
func timeText(t pawl.Timestamp) string {
	if t.IsZero() {
		return ""
	}
	return t.Time().Format(time.RFC3339Nano)
}

// Prune removes what ended longer ago than age, a few seconds with each request.
func (e *Engine) Prune(ctx context.Context, age time.Duration, c pawl.Change, each func(pawl.Pruning)) (pawl.Pruning, error) {
	total := pawl.Pruning{Busy: []string{}}
	if c.RequestID != "" {
		return total, unsupported("removing under a request id", "leave it out: what is removed is removed once")
	}
	for {
		var step struct {
			Removed pawl.Pruning `json:"removed"`
			More    bool         `json:"more"`
		}
		_, err := e.do(ctx, command("prune", "/api/retention/prune", c, struct {
			note
			OlderThan string `json:"older_than"`
		}{note{c.Reason}, age.String()}), &step)
		if err != nil {
			return total, err
		}
		total.Add(&step.Removed)
		each(total)
		if !step.More {
			return total, nil
		}
	}
}
