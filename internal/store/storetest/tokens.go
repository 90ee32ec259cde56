package storetest

import (
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var tokenTests = []test{
	{name: "Tokens/ComeBack", run: tokensComeBack},
	{name: "Tokens/Facts", run: tokenFacts},
	{name: "Tokens/List", run: tokenList},
	{name: "Tokens/NameTaken", run: tokenNameTaken},
	{name: "Tokens/Stale", run: tokenStale},
	{name: "K6/TokenTrail", run: tokenTrail},
	{name: "K8/TokensAreDue", run: tokensAreDue},
}

// token returns a token with a value in every field.
func (e *env) token(now int64, name string) *pawl.Token {
	t := &pawl.Token{ID: e.mint.ID(now), Name: name, Roles: []pawl.Role{pawl.RoleViewer, pawl.RoleWorker}, Workspaces: []string{"a", "b"},
		Sum: [32]byte{1, 31: 2}, ExpiresAt: 1 << 60}
	t.DueAt, t.DueEvent = t.ExpiresAt, lifecycle.TokenExpire
	return t
}

// addToken stores an active token, after change was called on it.
func (e *env) addToken(name string, change func(*pawl.Token)) *pawl.Token {
	e.Helper()
	var t *pawl.Token
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		t = e.token(f.Now, name)
		if change != nil {
			change(t)
		}
		b.AddToken(t)
	})
	return t
}

func (e *env) sameToken(want *pawl.Token) {
	e.Helper()
	got, err := e.st.Token(e.ctx, want.Key())
	e.ok(err)
	e.diff("token", want, got)
}

func (e *env) revoke(t *pawl.Token) (now *pawl.Token) {
	e.Helper()
	e.do(&store.Query{Tokens: []rowkey.Token{t.Key()}}, func(f *store.Facts, b *Batch) {
		now = f.Tokens[t.Key()]
		b.MoveToken(now, lifecycle.TokenRevoke)
		now.DueAt, now.DueEvent = 0, ""
	})
	return now
}

func tokensComeBack(e *env) {
	e.sameToken(e.addToken("full", nil))
	e.sameToken(e.addToken("bare", func(t *pawl.Token) { *t = pawl.Token{ID: t.ID, Name: "bare"} }))
	e.sameToken(e.revoke(e.addToken("revoked", nil)))
}

// tokenFacts: by key in any state, and by name while active; each only once.
func tokenFacts(e *env) {
	a, b, gone := e.addToken("a", nil), e.addToken("b", nil), e.addToken("c", nil)
	gone = e.revoke(gone)
	keyed := func(list ...*pawl.Token) map[rowkey.Token]*pawl.Token {
		m := map[rowkey.Token]*pawl.Token{}
		for _, t := range list {
			m[t.Key()] = t
		}
		return m
	}
	for what, tt := range map[string]struct {
		q    store.Query
		want map[rowkey.Token]*pawl.Token
	}{
		"by key":          {store.Query{Tokens: []rowkey.Token{a.Key(), gone.Key(), 5}}, keyed(a, gone)},
		"by name":         {store.Query{Tokened: []string{"a", "b", "c", "d"}}, keyed(a, b)},
		"by key and name": {store.Query{Tokens: []rowkey.Token{a.Key()}, Tokened: []string{"a"}}, keyed(a)},
		"not asked for":   {store.Query{}, keyed()},
	} {
		got := e.see(&tt.q).Tokens
		if got == nil {
			got = keyed()
		}
		e.diff(what, tt.want, got)
	}
}

// tokenList: newest first, in pages, in every state.
func tokenList(e *env) {
	a, b, c := e.addToken("a", nil), e.addToken("b", nil), e.addToken("c", nil)
	b = e.revoke(b)
	got, err := e.st.Tokens(e.ctx, 0, 2)
	e.ok(err)
	e.diff("first page", []*pawl.Token{c, b}, got)
	got, err = e.st.Tokens(e.ctx, b.Key(), 2)
	e.ok(err)
	e.diff("second page", []*pawl.Token{a}, got)
}

// tokenNameTaken: a name belongs to one active token.
func tokenNameTaken(e *env) {
	t := e.addToken("ci", nil)
	again := func() error {
		return e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) { b.AddToken(e.token(f.Now, "ci")) })
	}
	if err := again(); !errors.Is(err, store.ErrStale) {
		e.Errorf("a second one of the name: error %v, want ErrStale", err)
	}
	e.revoke(t)
	e.ok(again())
}

// tokenStale: a token that another transaction has changed fails the transaction.
func tokenStale(e *env) {
	t := e.addToken("ci", nil)
	err := e.try(e.st, &store.Query{Tokens: []rowkey.Token{t.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveToken(f.Tokens[t.Key()], lifecycle.TokenRevoke)
		b.Tokens[0].Was--
	})
	if !errors.Is(err, store.ErrStale) {
		e.Errorf("error %v, want ErrStale", err)
	}
	e.sameToken(t)
}

// tokenTrail: every field of every entry comes back, From and Entity included.
func tokenTrail(e *env) {
	var want []audit.Entry
	var t *pawl.Token
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		t = e.token(f.Now, "ci")
		b.AddToken(t)
		b.MoveToken(t, lifecycle.TokenExpire)
		for _, entry := range b.Entries {
			want = append(want, entry.Entry)
		}
	})
	e.addToken("other", nil)
	got, err := e.st.Trail(e.ctx, TokenKey(t), 0, 0)
	e.ok(err)
	e.diff("trail", want, got)
	heads, err := e.st.Heads(e.ctx, "token", 0, 1)
	e.ok(err)
	e.diff("head", []store.Leaf{{Kind: "token", Key: int64(t.Key()), ID: t.ID.Public(pawl.TokenPrefix), Sequence: 2, Head: t.Head}}, heads)
	e.verify(0)
}

// tokensAreDue: a scan finds a token whose deadline has passed, and knows the next one.
func tokensAreDue(e *env) {
	now := e.now()
	late := e.addToken("late", func(t *pawl.Token) { t.DueAt = now - 1 })
	e.addToken("soon", func(t *pawl.Token) { t.DueAt = now + 3600e6 })
	e.addToken("never", func(t *pawl.Token) { t.DueAt, t.DueEvent = 0, "" })
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 10})
	e.ok(err)
	e.diff("due", []store.Due{{EntityKey: TokenKey(late), At: now - 1, Event: lifecycle.TokenExpire}}, a.Due)
	e.diff("next", now+3600e6, a.NextDue)
}
