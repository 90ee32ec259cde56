package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/session"
	"github.com/pawl-dev/pawl/internal/store"
)

// Limits of idempotency (J8).
const (
	MaxRequestID   = 255       // characters of a request id, each of visible ASCII
	IdempotencyTTL = time.Hour // how long an answer is replayed
)

// A request represents a request id: the first command with that id is committed together
// with its answer, and a repeated request returns that answer. If the command is refused,
// the refusal is the answer; see keep. The nil request has no id, and is executed each
// time.
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
	return &request{e: e, key: store.IdempotencyKey{Workspace: workspace, Key: c.RequestID}, endpoint: endpoint, hash: hashOf(byPrincipal(c.Actor, endpoint, string(text))...)}, nil
}

// asked returns the request for an action on a job, and reports whether it was already
// done: then out has its result, or err is the refusal.
func (e *Engine) asked(ctx context.Context, id pawl.ID, c pawl.Change, verb string, out reply, parts ...any) (r *request, done bool, err error) {
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
	done, err = r.replay(ctx, out)
	return r, done, err
}

func checkRequestID(id string) error {
	if len(id) > MaxRequestID {
		return pawl.Errorf(pawl.Invalid, "request_id: %d bytes: want 1 to %d visible characters of ASCII", len(id), MaxRequestID)
	}
	for i, r := range id {
		if r < '!' || r > '~' {
			return pawl.Errorf(pawl.Invalid, "request_id: %q at byte %d: want 1 to %d visible characters of ASCII, without spaces", r, i, MaxRequestID)
		}
	}
	return nil
}

// byPrincipal adds who asks to the parts of a hash, if it is a caller that a server knows by a
// token or as a person: nobody gets the response to the request of another.
func byPrincipal(actor string, parts ...string) []string {
	if strings.HasPrefix(actor, tokenActor) || strings.HasPrefix(actor, session.OIDC) {
		return append(parts, actor)
	}
	return parts
}

// tokenActor begins the actors of callers of a server with a token.
const tokenActor = "token:"

func hashOf(parts ...string) [32]byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [32]byte(h.Sum(nil))
}

// A reply is the result of a command with a request id.
type reply interface {
	// answer returns what is stored, once the command is decided.
	answer() (status int, body []byte)
	// replay reads the result from a stored body.
	replay(body []byte) error
}

// replay reports whether the request was already done: then out has its result, or err is
// the refusal. Call it before reading what the request acts on, which may have changed
// since.
func (r *request) replay(ctx context.Context, out reply) (done bool, err error) {
	if r == nil {
		return false, nil
	}
	k := &keyed{request: r, out: out}
	err = k.result(r.e.committer.one(ctx, k))
	return err == nil && k.replayed, err
}

// execute commits a command, once per request, and returns its error. out receives the
// result of an earlier execution, and may be nil.
func (e *Engine) execute(ctx context.Context, r *request, cmd command, out reply) error {
	if trying(ctx) {
		return e.committer.one(ctx, trial{cmd})
	}
	if r == nil {
		return e.committer.one(ctx, cmd)
	}
	k := &keyed{command: cmd, request: r, out: out}
	return k.result(e.committer.one(ctx, k))
}

// Remember returns what make makes for a request. With a request id the first result is stored
// for an hour, and returned to the same request again; another request with that id is refused
// (J8). Of two at once, one result is stored, and both get it.
func (e *Engine) Remember(ctx context.Context, workspace, endpoint string, c pawl.Change, asked any, make func() (json.RawMessage, error)) (made json.RawMessage, again bool, err error) {
	r, err := e.newRequest(c, workspace, endpoint, asked)
	if err != nil {
		return nil, false, err
	}
	if done, err := r.replay(ctx, document{&made}); done || err != nil {
		return made, done, err
	}
	if made, err = make(); err != nil || r == nil {
		return made, false, err
	}
	k := &keyed{command: nothing{}, request: r, out: document{&made}}
	err = k.result(e.committer.one(ctx, k))
	return made, k.replayed, err
}

// nothing is a command that changes nothing.
type nothing struct{}

func (nothing) query(*store.Query) {}
func (nothing) decide(*tx) error   { return nil }

// A keyed command is one with a request id or, without a command, a lookup of the answer
// stored under that id.
type keyed struct {
	command
	*request
	out      reply
	replayed bool
	refusal  error // of the command, if it is stored
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

// result returns the error of the command, given that of its commit.
func (k *keyed) result(err error) error {
	if err != nil {
		return orHeld(err, k.key) // the commit may still be in progress
	}
	return k.refusal
}

// orHeld returns link.ErrKeyHeld if the key is why a commit failed.
func orHeld(err error, key store.IdempotencyKey) error {
	if key.Key != "" && errors.Is(err, store.ErrKeyHeld) {
		return link.KeyHeld(key.Key)
	}
	return err
}

func (k *keyed) decide(t *tx) error {
	k.refusal = nil // reset the result of an earlier try
	body, done, err := t.replay(k.key, k.hash)
	if k.replayed = done; done && err == nil && k.out != nil {
		err = k.out.replay(body)
	}
	if done || err != nil || k.command == nil {
		return err
	}
	answer := store.Answer{Endpoint: k.endpoint, RequestHash: k.hash, Status: http.StatusOK}
	if err := k.command.decide(t); err != nil {
		if k.refusal = err; t.keep(k.key, answer, err) {
			return nil
		}
		return err
	}
	if k.out != nil {
		answer.Status, answer.Body = k.out.answer()
	}
	t.answer(k.key, answer)
	return nil
}

// replay returns the response stored under a key, in the database or earlier in this
// commit: its body, or the refusal that it holds. A key that is held, or that belongs to
// another request, is an error and not done.
func (t *tx) replay(key store.IdempotencyKey, hash [32]byte) (body []byte, done bool, err error) {
	switch a := t.answered(key); {
	case a.New:
		return nil, false, nil
	case a.Held:
		return nil, false, link.KeyHeld(key.Key)
	case a.RequestHash != hash:
		return nil, false, link.KeyReused(key.Key)
	default:
		return a.Body, true, refusalOf(a)
	}
}

// A document is a result that is stored as JSON. It points to a value of this package.
type document struct{ v any }

func (d document) answer() (status int, body []byte) {
	body, err := json.Marshal(d.v)
	if err != nil {
		panic(err)
	}
	return http.StatusOK, body
}

func (d document) replay(body []byte) error { return json.Unmarshal(body, d.v) }
