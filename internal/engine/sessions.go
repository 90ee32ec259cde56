package engine

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/session"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// OpenSession makes a session of a subject; see package session. The plan has no name.
func (e *Engine) OpenSession(ctx context.Context, subject string, p pawl.TokenPlan, c pawl.Change) (pawl.NewToken, error) {
	if err := checkChange(c); err != nil {
		return pawl.NewToken{}, err
	}
	var random [6]byte
	crand.Read(random[:])
	var err error
	if p.Name, err = session.Name(subject, random); err != nil {
		return pawl.NewToken{}, err
	}
	return e.createToken(ctx, p, c)
}

// leastExtension is by how much the end of a token is put off at least: those who use it at the
// same time put it off once.
const leastExtension = time.Minute

// ExtendToken puts the end of an active token off. A token that ends later, or never, or less
// than a minute before, stays as it is.
func (e *Engine) ExtendToken(ctx context.Context, id pawl.ID, until pawl.Timestamp, c pawl.Change) error {
	return e.committer.one(ctx, &extendToken{id: id, until: int64(until), c: c})
}

type extendToken struct {
	id    pawl.ID
	until int64
	c     pawl.Change
}

func (x *extendToken) query(q *store.Query) { q.Tokens = append(q.Tokens, x.id.TokenKey()) }

func (x *extendToken) decide(t *tx) error {
	token := t.token(x.id.TokenKey())
	switch {
	case token == nil || token.ID != x.id:
		return store.NoToken(x.id)
	case token.State == lifecycle.TokenActive && (token.ExpiresAt == 0 || x.until-token.ExpiresAt < leastExtension.Microseconds()):
		return nil
	}
	note := noteOf(x.c)
	note.Metadata, _ = json.Marshal(map[string]pawl.Timestamp{"expires_at": pawl.Timestamp(x.until)}) // a time
	if err := t.moveToken(token, lifecycle.TokenExtend, note); err != nil {
		return err
	}
	token.ExpiresAt, token.DueAt, token.DueEvent = x.until, x.until, lifecycle.TokenExpire
	return nil
}
