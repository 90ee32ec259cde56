package access_test

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/bearer"
	"github.com/pawl-dev/pawl/internal/session"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A hall is a gate with sessions, on a clock of its own. It is the engine of both.
type hall struct {
	*access.Gate
	t      *testing.T
	now    time.Time
	tokens map[pawl.ID]*pawl.Token
	secret string // of the token ci
	ci     *pawl.Token
}

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{t: t, now: time.Unix(1.8e9, 0), tokens: map[pawl.ID]*pawl.Token{}}
	h.Gate = access.New(access.Config{Required: true, Sessions: h, Now: func() time.Time { return h.now },
		Find: func(_ context.Context, id pawl.ID) (*pawl.Token, error) {
			if found := h.tokens[id]; found != nil {
				read := *found
				return &read, nil
			}
			return nil, pawl.Errorf(pawl.NotFound, "there is no token")
		},
		FindSum: func(_ context.Context, sum [32]byte) (*pawl.Token, error) {
			for _, found := range h.tokens {
				if found.Sum == sum {
					return found, nil
				}
			}
			return nil, pawl.Errorf(pawl.NotFound, "there is no token")
		}})
	h.ci, h.secret = h.mint("ci", pawl.TokenPlan{Roles: []pawl.Role{pawl.RoleOperator}, Workspaces: []string{"builds"}})
	return h
}

func (h *hall) mint(name string, p pawl.TokenPlan) (*pawl.Token, string) {
	t := &pawl.Token{ID: pawl.MakeID(h.now, uint32(len(h.tokens)), 7), Name: name, Roles: p.Roles, Workspaces: p.Workspaces, ExpiresAt: int64(p.ExpiresAt)}
	t.State, t.CreatedAt = lifecycle.TokenActive, pawl.Micros(h.now)
	secret := bearer.Make(t.ID, [bearer.Size]byte{byte(len(h.tokens))})
	t.Sum = bearer.Sum(secret)
	h.tokens[t.ID] = t
	return t, secret
}

func (h *hall) OpenSession(_ context.Context, subject string, p pawl.TokenPlan, _ pawl.Change) (pawl.NewToken, error) {
	name, err := session.Name(subject, [6]byte{byte(len(h.tokens))})
	if err != nil {
		return pawl.NewToken{}, err
	}
	_, secret := h.mint(name, p)
	return pawl.NewToken{Secret: secret}, nil
}

func (h *hall) ExtendToken(_ context.Context, id pawl.ID, until pawl.Timestamp, _ pawl.Change) error {
	h.tokens[id].ExpiresAt = int64(until)
	return nil
}

func (h *hall) RevokeToken(_ context.Context, id pawl.ID, _ pawl.Change) (pawl.Receipt, error) {
	h.tokens[id].State = lifecycle.TokenRevoked
	return pawl.Receipt{}, nil
}

func (h *hall) enter(cookies ...string) *access.Principal {
	h.t.Helper()
	p, err := h.Enter(h.t.Context(), access.Credentials{Cookies: cookies, Address: "192.0.2.1:1"})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

func (h *hall) signIn(secret string) (cookie string) {
	h.t.Helper()
	p, cookie, err := h.SignIn(h.t.Context(), secret, "192.0.2.1:1")
	if err != nil || p.Name != "token:ci" || !p.InSession() || p.Token != h.ci.ID || !p.Sees("builds") || p.Everywhere() || p.Holds(pawl.RoleAdmin) {
		h.t.Fatalf("signed in: %+v, %v", p, err)
	}
	return cookie
}

// TestSessions: a session stands for its token and ends with it. What it shows works as a cookie
// only, and the secret of a token in the header only.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	cookie := h.signIn(h.secret)
	if p := h.enter("pawl_nonsense", cookie); p.Name != "token:ci" {
		t.Errorf("behind a cookie of something else: %+v", p)
	}
	if p := h.enter(h.secret); len(p.Roles) != 0 {
		t.Errorf("the secret of a token as a cookie: %+v; want nobody", p)
	}
	if p, err := h.Enter(t.Context(), access.Credentials{Authorization: []string{"Bearer " + cookie}}); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("a session in the header: %+v, %v; want it refused", p, err)
	}
	h.ci.State = lifecycle.TokenRevoked
	h.Forget(h.ci.ID)
	if p := h.enter(cookie); len(p.Roles) != 0 {
		t.Errorf("after its token was revoked: %+v; want nobody", p)
	}
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	cookie, other := h.signIn(h.secret), h.signIn(h.secret)
	if err := h.SignOut(t.Context(), h.enter(cookie)); err != nil {
		t.Fatal(err)
	}
	if p := h.enter(cookie); len(p.Roles) != 0 {
		t.Errorf("signed out: %+v; want nobody", p)
	}
	if p := h.enter(other); p.Name != "token:ci" {
		t.Errorf("another session: %+v; want it to stand", p)
	}
}

// TestIdleSessions: a session ends when it was not used for 12 hours, and after 7 days.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	idle, used := h.signIn(h.secret), h.signIn(h.secret)
	began := h.now
	for h.now.Sub(began) < access.MaxSession-time.Second {
		if p := h.enter(used); p.Name != "token:ci" {
			t.Fatalf("used, after %s: %+v", h.now.Sub(began), p)
		}
		if p := h.enter(idle); h.now.Sub(began) >= access.Idle && len(p.Roles) != 0 {
			t.Fatalf("idle, after %s: %+v; want nobody", h.now.Sub(began), p)
		}
		step := min(11*time.Hour, began.Add(access.MaxSession-time.Second).Sub(h.now))
		if h.now == began {
			step = access.Idle // the idle one was used at the beginning
			h.enter(used)
			h.now = h.now.Add(6 * time.Hour)
			h.enter(used)
			step -= 6 * time.Hour
		}
		h.now = h.now.Add(step)
	}
	h.now = began.Add(access.MaxSession)
	if p := h.enter(used); len(p.Roles) != 0 {
		t.Errorf("after 7 days: %+v; want nobody", p)
	}
}

// TestCodes: a code signs in once, within a minute.
func TestCodes(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	who, err := h.Enter(t.Context(), access.Credentials{Authorization: []string{"Bearer " + h.secret}})
	if err != nil {
		t.Fatal(err)
	}
	code, _ := h.Code(who)
	h.signIn(code)
	late, _ := h.Code(who)
	h.now = h.now.Add(access.CodeTime)
	for what, code := range map[string]string{"used": code, "late": late} {
		if p, _, err := h.SignIn(t.Context(), code, "192.0.2.1:1"); !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("a code that is %s: %+v, %v; want it refused", what, p, err)
		}
	}
}

// TestCertificates: the certificate that a token has the sum of is that token.
func TestCertificates(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.ci.Sum = bearer.Sum("a certificate")
	until := h.now.Add(time.Hour)
	for _, tt := range []struct {
		what, der string
		at        time.Time
		want      string
	}{{"its certificate", "a certificate", h.now, "token:ci"}, {"another", "another", h.now, ""}, {"its certificate, too late", "a certificate", until, ""}} {
		h.now = tt.at
		for range access.FailedSigns + 1 { // none of them counts
			p, err := h.Enter(t.Context(), access.Credentials{Certificate: &x509.Certificate{Raw: []byte(tt.der), NotAfter: until}, Address: "192.0.2.1:1"})
			if err != nil || p.Name != tt.want {
				t.Fatalf("%s: %+v, %v; want %q", tt.what, p, err, tt.want)
			}
		}
	}
}

// TestOldCookiesLockNobodyOut: cookies that let nobody in any more, and those of other servers,
// count once each, and keep out neither the good one nor anybody else.
func TestOldCookiesLockNobodyOut(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	old := h.signIn(h.secret)
	if err := h.SignOut(t.Context(), h.enter(old)); err != nil {
		t.Fatal(err)
	}
	foreign := bearer.Make(pawl.MakeID(h.now, 77, 77), [bearer.Size]byte{77})
	good := h.signIn(h.secret)
	for range 5 * access.FailedSigns {
		if p := h.enter(foreign, old, good); p.Name != "token:ci" {
			t.Fatalf("the good one behind others: %+v", p)
		}
		if p := h.enter(foreign, old); len(p.Roles) != 0 {
			t.Fatalf("the others: %+v; want nobody", p)
		}
		h.now = h.now.Add(time.Second)
	}
	h.signIn(h.secret)
}

// TestManySessions: the sessions of a token have its limit together, and it opens 10 in a minute.
func TestManySessions(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	var cookies []string
	for range 10 {
		cookies = append(cookies, h.signIn(h.secret))
	}
	var limited *access.LimitedError
	if _, _, err := h.SignIn(t.Context(), h.secret, "192.0.2.1:1"); !errors.As(err, &limited) {
		t.Errorf("the 11th: %v; want it limited", err)
	}
	var err error
	for i := 0; err == nil && i <= access.Burst; i++ {
		_, err = h.Enter(t.Context(), access.Credentials{Cookies: []string{cookies[i%10]}, Address: "192.0.2.1:1"})
	}
	if !errors.As(err, &limited) {
		t.Errorf("more requests than a token may send, by 10 sessions: %v", err)
	}
}

// TestADeadSessionIsNotExtended: who uses the session of a revoked token writes nothing.
func TestADeadSessionIsNotExtended(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	cookie := h.signIn(h.secret)
	id, _ := bearer.Parse(cookie)
	until := h.tokens[id].ExpiresAt
	h.ci.State = lifecycle.TokenRevoked
	h.now = h.now.Add(6 * time.Hour)
	if p := h.enter(cookie); len(p.Roles) != 0 || h.tokens[id].ExpiresAt != until {
		t.Errorf("%+v, until %d; want nobody, and %d", p, h.tokens[id].ExpiresAt, until)
	}
}
