package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/link"
)

// A batch is a request that submits many jobs.
type batch struct {
	RequestID string       `json:"request_id,omitempty" maxLength:"255" doc:"The request's key: 1 to 255 visible ASCII characters. It belongs to the workspace of the first job."`
	Jobs      []submission `json:"jobs" minItems:"1" maxItems:"500"`
}

// An outcome is what became of one submission of a batch.
type outcome struct {
	Receipt *pawl.Receipt `json:"receipt,omitempty"`
	Problem *Problem      `json:"problem,omitempty"`
}

type outcomes struct {
	Items []outcome `json:"items"`
}

// settled reports whether the same request would have the same outcomes again: none is a failure of
// the server, nor one of a key that is in use at this moment.
func (o *outcomes) settled() bool {
	return !slices.ContainsFunc(o.Items, func(i outcome) bool {
		return i.Problem != nil && (i.Problem.Status >= http.StatusInternalServerError || i.Problem.Code == SlugRequestInProgress.Code())
	})
}

// batchResponse is the response to a batch.
type batchResponse struct {
	Replayed string `header:"Idempotency-Replayed" doc:"true: the answer is that to an earlier request with the same key."`
	Body     outcomes
}

func (s *Service) submitJobs(ctx context.Context, in *struct {
	Key
	Body batch
}) (*batchResponse, error) {
	c, err := in.change(ctx, Note{RequestID: in.Body.RequestID})
	if err != nil {
		return nil, err
	}
	if c.RequestID == "" {
		out, err := s.submitEach(ctx, in.Body.Jobs)
		return &batchResponse{Body: out}, err
	}
	return s.submitOnce(ctx, in.Body.Jobs, c)
}

var errUnsettled = errors.New("the response is not stored")

// submitOnce submits jobs once for each key. The key holds what is asked; each job is committed with
// a key of its own, derived from it; the whole response is stored before it is sent. So after a
// crash the same request makes the jobs that are missing, and no job twice.
func (s *Service) submitOnce(ctx context.Context, jobs []submission, c pawl.Change) (*batchResponse, error) {
	const endpoint = "POST /api/jobs/batch"
	workspace := jobs[0].Workspace
	asked := slices.Clone(jobs)
	for i := range asked {
		asked[i].Traceparent = "" // is no part of a request
	}
	_, _, err := s.Engine.Remember(ctx, workspace, endpoint, c, asked, func() (json.RawMessage, error) { return json.RawMessage("{}"), nil })
	if err != nil {
		return nil, err
	}
	// A job may have another workspace than the key, whose other batches must not share its key.
	scoped := cmp.Or(workspace, pawl.DefaultWorkspace) + " " + c.RequestID
	for i := range jobs {
		if jobs[i].RequestID == "" {
			jobs[i].RequestID = partKey("batch", scoped, fmt.Sprint(i))
		}
	}
	var out outcomes
	whole := c
	whole.RequestID = partKey("batch", c.RequestID, "answer")
	stored, again, err := s.Engine.Remember(ctx, workspace, endpoint, whole, asked, func() (json.RawMessage, error) {
		made, err := s.submitEach(ctx, jobs)
		if err != nil {
			return nil, err
		}
		if out = made; !out.settled() {
			return nil, errUnsettled
		}
		return json.Marshal(out)
	})
	switch {
	case errors.Is(err, errUnsettled):
		return &batchResponse{Body: out}, nil
	case errors.Is(err, link.ErrKeyHeld):
		return nil, link.KeyHeld(c.RequestID)
	case errors.Is(err, link.ErrKeyReused): // the key has expired, and the response stored under it has not
		return nil, link.KeyReused(c.RequestID)
	case err != nil:
		return nil, err
	}
	out = outcomes{}
	return &batchResponse{Replayed: replayedHeader(again), Body: out}, json.Unmarshal(stored, &out)
}

// partKey returns the key of a part of a request with a key.
func partKey(kind, key, part string) string {
	sum := sha256.Sum256([]byte(key + " " + part))
	return kind + "-" + hex.EncodeToString(sum[:16])
}

// submitEach submits jobs, many in one commit. One that is refused does not affect the others.
func (s *Service) submitEach(ctx context.Context, jobs []submission) (outcomes, error) {
	out := make([]outcome, len(jobs))
	var subs []client.Submission
	var at []int
	for i := range jobs {
		sub, err := jobs[i].asked(pawl.Change{Actor: ActorOf(ctx), RequestID: jobs[i].RequestID})
		if err != nil {
			out[i].Problem = s.problem(ctx, "submit-jobs", err)
			continue
		}
		subs, at = append(subs, sub), append(at, i)
	}
	done, err := s.client(ctx, "").Jobs.SubmitAll(ctx, subs...)
	if err != nil {
		return outcomes{}, err
	}
	for i := range done {
		if done[i].Err != nil {
			out[at[i]].Problem = s.problem(ctx, "submit-jobs", done[i].Err)
			continue
		}
		out[at[i]].Receipt = &done[i].Receipt
	}
	return outcomes{out}, nil
}
