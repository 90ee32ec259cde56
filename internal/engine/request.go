package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// Limits of idempotency (J8).
const (
	MaxRequestID   = 200       // bytes of a request id
	IdempotencyTTL = time.Hour // how long a response is replayed
)

// A request represents a request id: the first command with that id is committed together
// with its response, and a repeated request returns that response. A refusal is not stored.
// The nil request has no id, and is executed each time.
type request struct {
	e        *Engine
	key      store.IdempotencyKey
	endpoint string
	hash     [32]byte
}

// newRequest returns the request of an operator, or nil if it has no id. Different parts
// make a different request; they have a form in JSON.
func (e *Engine) newRequest(c pawl.Change, workspace, endpoint string, parts ...any) (*request, error) {
	if c.RequestID == "" {
		return nil, nil
	}
	if err := checkRequestID(c.RequestID); err != nil {
		return nil, err
	}
	if workspace == "" {
		workspace = pawl.DefaultWorkspace
	}
	text, err := json.Marshal(append(parts, c.Reason))
	if err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "request: %v", err)
	}
	return &request{e: e, key: store.IdempotencyKey{Workspace: workspace, Key: c.RequestID}, endpoint: endpoint, hash: hashOf(endpoint, string(text))}, nil
}

// asked returns the request for an action on a job, and reports whether it was already
// done.
func (e *Engine) asked(ctx context.Context, id pawl.ID, c pawl.Change, verb string, parts ...any) (r *request, done bool, err error) {
	if c.RequestID == "" {
		return nil, false, nil
	}
	j, err := store.FindJob(ctx, e.store, id)
	if err != nil {
		return nil, false, err
	}
	if r, err = e.newRequest(c, j.Workspace, "POST /api/jobs/{id}/"+verb, append(parts, id)...); err != nil {
		return nil, false, err
	}
	done, err = r.replay(ctx, nil)
	return r, done, err
}

func checkRequestID(id string) error {
	if len(id) > MaxRequestID {
		return pawl.Errorf(pawl.Invalid, "request_id: %d bytes: at most %d are allowed", len(id), MaxRequestID)
	}
	return nil
}

func hashOf(parts ...string) [32]byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [32]byte(h.Sum(nil))
}

// replay reports whether the request was already done, and passes its response to take.
// Call it before reading what the request acts on, which may have changed since.
func (r *request) replay(ctx context.Context, take func(body []byte) error) (done bool, err error) {
	if r == nil {
		return false, nil
	}
	k := &keyed{request: r, take: take}
	if err := r.e.committer.one(ctx, k); err != nil {
		return false, err
	}
	return k.replayed, nil
}

// once makes a command that is executed once per request. body returns the response once
// the command is decided, and take receives the response of an earlier execution. Both may
// be nil.
func (r *request) once(cmd command, body func() []byte, take func([]byte) error) command {
	if r == nil {
		return cmd
	}
	return &keyed{command: cmd, request: r, body: body, take: take}
}

// A keyed command is one with a request id or, without a command, a lookup of the response
// stored under that id.
type keyed struct {
	command
	*request
	body     func() []byte
	take     func([]byte) error
	replayed bool
}

func (k *keyed) query(q *store.Query) {
	q.Keys = append(q.Keys, k.key)
	if k.command != nil {
		k.command.query(q)
	}
}

func (k *keyed) weight() int {
	if k.command == nil {
		return 1
	}
	return weightOf(k.command)
}

func (k *keyed) renew() {
	if r, ok := k.command.(renewer); ok {
		r.renew()
	}
}

func (k *keyed) decide(t *tx) error {
	body, done, err := t.replay(k.key, k.hash)
	if k.replayed = done; done && err == nil && k.take != nil {
		err = k.take(body)
	}
	if done || err != nil || k.command == nil {
		return err
	}
	if err := k.command.decide(t); err != nil {
		return err
	}
	if k.body != nil {
		body = k.body()
	}
	t.answer(k.key, &store.Answer{Endpoint: k.endpoint, RequestHash: k.hash, Status: 200, Body: body, ExpiresAt: t.now + IdempotencyTTL.Microseconds()})
	return nil
}

// replay returns the response stored under a key, in the database or earlier in this
// commit. A key that belongs to another request is an error.
func (t *tx) replay(key store.IdempotencyKey, hash [32]byte) (body []byte, done bool, err error) {
	a := t.answered(key)
	if a.New {
		return nil, false, nil
	}
	if a.Held {
		return nil, false, &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf("request_id %q is used by a transaction that is still open", key.Key),
			Hint: "give the same request again when that transaction has ended"}
	}
	if a.RequestHash != hash {
		return nil, false, pawl.Errorf(pawl.Invalid, "request_id %q was used for another request", key.Key)
	}
	return a.Body, true, nil
}

// jobID reads the id of a job from a response.
func jobID(into *pawl.ID) func([]byte) error {
	return func(body []byte) (err error) {
		*into, err = pawl.ParseID(pawl.JobPrefix, string(body))
		return err
	}
}

// asJSON and fromJSON write and read a value as the response.
func asJSON(v any) func() []byte {
	return func() []byte {
		body, err := json.Marshal(v)
		if err != nil {
			panic(err) // v is always a value of this package
		}
		return body
	}
}

func fromJSON(v any) func([]byte) error {
	return func(body []byte) error { return json.Unmarshal(body, v) }
}
