package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/link"
)

// An outcome is what became of one submission of a batch. An outcome with neither is unsettled: in the
// stored response to a batch it stands for a job that the same request is to make.
type outcome struct {
	Receipt *pawl.Receipt `json:"receipt,omitempty"`
	Problem *Problem      `json:"problem,omitempty"`
}

type outcomes struct {
	Items []outcome `json:"items"`

	text []byte // the response as it is stored, in place of the items; nil: it is not stored
}

// unsettled is an item of a stored response that is not settled.
const unsettled = "{}"

// settled reports whether the same submission would have the same outcome again: it is no failure of
// the server, nor one of a key that is in use at this moment.
func (o *outcome) settled() bool {
	return o.Problem == nil || o.Problem.Status < http.StatusInternalServerError && o.Problem.Code != SlugRequestInProgress.Code()
}

// AppendJSON appends the response.
func (o outcomes) AppendJSON(to []byte) []byte {
	if o.text != nil {
		return append(to, o.text...)
	}
	return o.append(to, false)
}

// append appends the items. To be stored, what is not settled is marked as that.
func (o *outcomes) append(to []byte, stored bool) []byte {
	to = append(to, `{"items":[`...)
	for i := range o.Items {
		if i > 0 {
			to = append(to, ',')
		}
		switch item := &o.Items[i]; {
		case stored && !item.settled():
			to = append(to, unsettled...)
		case item.Receipt != nil:
			to = append(exchange.AppendReceipt(append(to, `{"receipt":`...), item.Receipt), '}')
		default:
			to = append(item.Problem.append(append(to, `{"problem":`...)), '}')
		}
	}
	return append(to, "]}"...)
}

// batchResponse is the response to a batch.
type batchResponse struct {
	Replayed string `header:"Idempotency-Replayed" doc:"true: the response is that to an earlier request with the same key."`
	Body     outcomes
}

// A batchRequest is a request that submits many jobs.
type batchRequest struct {
	Key
	Body exchange.Batch
}

func (s *Service) submitJobs(ctx context.Context, in *batchRequest) (*batchResponse, error) {
	c, err := in.change(ctx, Note{RequestID: in.Body.RequestID})
	if err != nil {
		return nil, err
	}
	if c.RequestID == "" {
		done, err := s.asking(ctx).submitEach(in.Body.Jobs)
		if err != nil {
			return nil, err
		}
		return &batchResponse{Body: s.outcomesOf(ctx, done)}, nil
	}
	return s.submitOnce(ctx, in.Body.Jobs, c)
}

// batchEndpoint is that of keys of batches.
const batchEndpoint = "POST /api/jobs/batch"

// submitOnce submits jobs once for each key. The jobs are committed together with the response to the
// request. What is not settled by that commit the request makes afterwards, and again each time it is
// repeated, each job under a key of its own that is derived from that of the request.
func (s *Service) submitOnce(ctx context.Context, jobs []exchange.Submission, c pawl.Change) (*batchResponse, error) {
	workspace, a := jobs[0].Workspace, s.asking(ctx)
	subs, done := a.submissions(jobs)
	text, again, err := s.Engine.SubmitOnce(ctx, &link.Batch{
		Workspace: workspace, Endpoint: batchEndpoint, Change: c, Asked: digest(jobs),
		Response: func(done []pawl.Submitted) []byte {
			out := outcomesOf(ctx, done)
			return out.append(make([]byte, 0, 64+receiptSize*len(done)), true)
		},
	}, subs, done)
	if errors.Is(err, link.ErrKeyReused) {
		text, again, err = s.begun(ctx, jobs, c)
	} else if err == nil && !again {
		s.logAll(ctx, done)
	}
	if err != nil {
		return nil, err
	}
	out := &batchResponse{Replayed: replayedHeader(again), Body: outcomes{text: text}}
	if !bytes.Contains(text, []byte(unsettled)) {
		return out, nil
	}
	return a.complete(jobs, out, cmp.Or(workspace, pawl.DefaultWorkspace)+" "+c.RequestID)
}

// begun returns the response to a batch whose key belongs to the same request to a server of an earlier
// version. What that server made is found by the key of each job; what it refused is tried again.
func (s *Service) begun(ctx context.Context, jobs []exchange.Submission, c pawl.Change) (text []byte, again bool, err error) {
	asked := slices.Clone(jobs)
	for i := range asked {
		asked[i].Traceparent = ""
	}
	unknown := func() (json.RawMessage, error) { return nil, link.KeyReused(c.RequestID) }
	if _, _, err := s.Engine.Remember(ctx, jobs[0].Workspace, batchEndpoint, c, asked, unknown); err != nil {
		return nil, false, err
	}
	items := strings.Repeat(","+unsettled, len(jobs))
	return []byte(`{"items":[` + items[1:] + "]}"), true, nil
}

// receiptSize is about how many bytes the receipt of a new job has.
const receiptSize = 256

// complete makes the jobs of a stored response that are not settled, and returns the whole response. key
// is that of the request within all workspaces: a job may have another one than the key.
func (a *asking) complete(jobs []exchange.Submission, stored *batchResponse, key string) (*batchResponse, error) {
	var out outcomes
	if err := json.Unmarshal(stored.Body.text, &out); err != nil {
		return nil, err
	}
	if len(out.Items) != len(jobs) {
		return nil, fmt.Errorf("the stored response to a batch of %d jobs has %d", len(jobs), len(out.Items))
	}
	var rest []exchange.Submission
	var at []int
	for i := range out.Items {
		if out.Items[i] != (outcome{}) {
			continue
		}
		job := jobs[i]
		job.RequestID = cmp.Or(job.RequestID, partKey("batch", key, strconv.Itoa(i)))
		rest, at = append(rest, job), append(at, i)
	}
	if len(rest) == 0 {
		return stored, nil
	}
	done, err := a.submitEach(rest)
	if err != nil {
		return nil, err
	}
	again := stored.Replayed != ""
	for i, item := range a.s.outcomesOf(a.ctx, done).Items {
		out.Items[at[i]], again = item, again && done[i].Replayed
	}
	return &batchResponse{Replayed: replayedHeader(again), Body: out}, nil
}

// digest returns a text that is the same for the same submissions: it does not depend on white space
// between values, nor on the places in traces.
func digest(jobs []exchange.Submission) string {
	h, size, like := sha256.New(), make([]byte, 0, 8), new(exchange.Submission)
	write := func(part []byte) {
		size = binary.BigEndian.AppendUint64(size[:0], uint64(len(part)))
		h.Write(size)
		h.Write(part)
	}
	var head, compact []byte
	for i := range jobs {
		j := &jobs[i]
		head = head[:0]
		for _, text := range [...]string{j.RequestID, j.Workspace, j.Workflow, j.Source, j.Description, j.Parent} {
			head = strconv.AppendQuote(head, text)
		}
		depth := -1
		if j.Depth != nil {
			depth = *j.Depth
		}
		for _, n := range [...]int{j.Priority, depth, j.WorkerCount} {
			head = strconv.AppendInt(append(head, ' '), int64(n), 10)
		}
		write(head)
		if i == 0 || !bytes.Equal(j.Definition, like.Definition) {
			compact = compacted(j.Definition)
		}
		write(compact)
		write(compacted(j.Inputs))
		write(compacted(j.Metadata))
		like = j
	}
	return hex.EncodeToString(h.Sum(nil))
}

// compacted returns JSON without white space between its values.
func compacted(text []byte) []byte {
	if bytes.IndexByte(text, ' ') < 0 && bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\t') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	var b bytes.Buffer
	_ = json.Compact(&b, text) // it was read as JSON
	return b.Bytes()
}

// partKey returns the key of a part of a request with a key.
func partKey(kind, key, part string) string {
	sum := sha256.Sum256([]byte(key + " " + part))
	return kind + "-" + hex.EncodeToString(sum[:16])
}

// submitEach submits jobs, many in one commit. One that is refused does not affect the others.
func (a *asking) submitEach(jobs []exchange.Submission) ([]pawl.Submitted, error) {
	subs, done := a.submissions(jobs)
	var valid []pawl.Submission
	var at []int
	for i := range subs {
		if done[i].Err == nil {
			valid, at = append(valid, subs[i]), append(at, i)
		}
	}
	if len(valid) > 0 {
		made, err := a.s.Engine.Submit(a.ctx, valid...)
		if err != nil {
			return nil, err
		}
		for i := range made {
			done[at[i]] = made[i]
		}
	}
	return done, nil
}

// outcomesOf returns the outcomes of submissions, and logs what is a problem of the server.
func (s *Service) outcomesOf(ctx context.Context, done []pawl.Submitted) outcomes {
	s.logAll(ctx, done)
	return outcomesOf(ctx, done)
}

func (s *Service) logAll(ctx context.Context, done []pawl.Submitted) {
	for i := range done {
		if err := done[i].Err; err != nil {
			s.log(ctx, "submit-jobs", problemOf(ctx, err), err)
		}
	}
}

func outcomesOf(ctx context.Context, done []pawl.Submitted) outcomes {
	out := make([]outcome, len(done))
	for i := range done {
		if done[i].Err != nil {
			out[i].Problem = problemOf(ctx, done[i].Err)
			continue
		}
		out[i].Receipt = &done[i].Receipt
	}
	return outcomes{Items: out}
}
