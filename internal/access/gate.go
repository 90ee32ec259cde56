package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/bearer"
	"github.com/pawl-dev/pawl/internal/session"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Limits of a gate.
const (
	Fresh        = 5 * time.Second // how long a token counts as it was read
	Rate         = 200             // requests of a token in a second
	Burst        = 400             // and at once
	FailedSigns  = 10              // failed sign-ins of an address in a minute
	failedEvery  = time.Minute / FailedSigns
	maxKnown     = 10_000 // tokens in memory
	maxAddresses = 10_000 // with failed sign-ins, in memory
)

// ErrUnauthenticated is returned for a request whose token is not valid. It does not say why,
// since that would tell who guesses how close the guess was.
var ErrUnauthenticated = errors.New("the token is not valid: it is unknown, mistyped, revoked or has expired")

// A LimitedError is returned for a request of a caller who sends too many.
type LimitedError struct {
	What  string
	After time.Duration // when to try again
}

func (e *LimitedError) Error() string { return e.What }

// Config configures a Gate.
type Config struct {
	// Find reads a token by its id. The error is of kind NotFound if there is none.
	Find func(context.Context, pawl.ID) (*pawl.Token, error)

	// FindSum is Find for the active token with a sum. nil: certificates let nobody in.
	FindSum func(context.Context, [32]byte) (*pawl.Token, error)

	// Sessions makes sessions and ends them. nil: nobody can sign in.
	Sessions Sessions

	// Required: a caller without a token is nobody. Otherwise it is Local.
	Required bool

	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

// A Gate lets callers in. It keeps the tokens that it has seen, so that a token is read once
// in 5 seconds: one that was revoked by another process is let in for so long. It is safe for
// concurrent use.
type Gate struct {
	Config

	mu     sync.Mutex
	known  map[[32]byte]*known // by the sum
	failed map[netip.Prefix]*rate.Limiter
	codes  map[string]code
	rates  map[pawl.ID]*rate.Limiter // of requests, by token
	opened map[pawl.ID]*rate.Limiter // of sessions that are opened, by token
}

// A known sum was looked up before.
type known struct {
	principal *Principal // nil: it lets nobody in
	read      time.Time
	rate      *rate.Limiter // of the token, with its sessions
}

// lets reports whether it lets somebody in, as a session or not.
func (k *known) lets(now time.Time, asSession bool) bool {
	p := k.principal
	return p != nil && p.InSession() == asSession && (p.ExpiresAt == 0 || p.ExpiresAt > pawl.Micros(now))
}

// New returns a gate.
func New(c Config) *Gate {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Gate{Config: c, known: map[[32]byte]*known{}, failed: map[netip.Prefix]*rate.Limiter{}, codes: map[string]code{},
		rates: map[pawl.ID]*rate.Limiter{}, opened: map[pawl.ID]*rate.Limiter{}}
}

// Credentials are what a request shows of who sends it.
type Credentials struct {
	Authorization []string          // the values of that header
	Cookies       []string          // the values of the cookies that may be of a session
	Certificate   *x509.Certificate // the client's, verified; nil: it has none
	Address       string            // that it comes from
}

// Enter returns who sends a request. The header Authorization is tried first, then the cookies,
// then the certificate; a cookie or a certificate that is not valid counts as none. The error is
// ErrUnauthenticated, a *LimitedError, or that of a look-up.
func (g *Gate) Enter(ctx context.Context, c Credentials) (*Principal, error) {
	if len(c.Authorization) > 0 {
		secret, is := secretOf(c.Authorization)
		if !is {
			return nil, g.refuse(c.Address)
		}
		return g.byHeader(ctx, secret, c.Address)
	}
	for _, secret := range c.Cookies {
		if k, err := g.bySecret(ctx, secret, c.Address, true); err != nil || k != nil {
			return g.pass(k, err)
		}
	}
	if c.Certificate != nil && g.FindSum != nil && c.Certificate.NotAfter.After(g.Now()) {
		sum := sha256.Sum256(c.Certificate.Raw)
		find := func(ctx context.Context) (*pawl.Token, error) { return g.FindSum(ctx, sum) }
		if k, err := g.lookUp(ctx, sum, find, true); err != nil || k.lets(g.Now(), false) {
			return g.pass(k, err)
		}
	}
	if g.Required {
		return &Principal{}, nil
	}
	return Local(), nil
}

// pass returns the principal of a token that lets somebody in, unless it sends too much.
func (g *Gate) pass(k *known, err error) (*Principal, error) {
	if err != nil {
		return nil, err
	}
	return k.principal, limited(k.rate, g.Now(), "this token sends more than 200 requests in a second")
}

// byHeader returns who has the secret of a token. Each failure counts.
func (g *Gate) byHeader(ctx context.Context, secret, address string) (*Principal, error) {
	k, err := g.bySecret(ctx, secret, address, false)
	if err == nil && k == nil {
		err = g.refuse(address)
	}
	return g.pass(k, err)
}

// bySecret returns what a secret lets in: that of a token, or of a session; or nil. A secret that
// comes for the first time, and is none, counts as a failed sign-in of a session, and is
// remembered: a browser may send it with each request. An address that has none left is not
// looked up for.
func (g *Gate) bySecret(ctx context.Context, secret, address string, ofSession bool) (*known, error) {
	id, wellFormed := bearer.Parse(secret)
	sum := bearer.Sum(secret)
	seen := g.recent(sum) != nil
	if !wellFormed || !seen && g.exhausted(address) {
		return nil, nil
	}
	k, err := g.lookUp(ctx, sum, func(ctx context.Context) (*pawl.Token, error) { return g.Find(ctx, id) }, ofSession)
	switch {
	case err != nil:
		return nil, err
	case k.lets(g.Now(), ofSession):
		return k, nil
	case ofSession && !seen:
		_ = g.refuse(address) // it counts, and the caller goes on
	}
	return nil, nil
}

// lookUp returns what is known of a sum, read at most 5 seconds ago. That it lets nobody in is
// remembered if that is wanted.
func (g *Gate) lookUp(ctx context.Context, sum [32]byte, find func(context.Context) (*pawl.Token, error), remember bool) (*known, error) {
	if k := g.recent(sum); k != nil && g.Now().Sub(k.read) < Fresh {
		return k, nil
	}
	p, err := g.read(ctx, sum, find)
	if err != nil {
		return nil, err
	}
	if p == nil && !remember {
		g.drop(sum)
		return new(known), nil
	}
	return g.keep(sum, p), nil
}

// read reads a token from the database. It returns nil if there is none that is active and has
// the sum.
func (g *Gate) read(ctx context.Context, sum [32]byte, find func(context.Context) (*pawl.Token, error)) (*Principal, error) {
	token, err := found(find(ctx))
	if err != nil || token == nil || subtle.ConstantTimeCompare(token.Sum[:], sum[:]) != 1 {
		return nil, err
	}
	subject, is := session.Subject(token.Name)
	switch {
	case !is && session.Reserved(token.Name):
		return nil, nil
	case !is:
		return principalOf(token), nil
	}
	p := principalOf(token)
	p.Name = subject
	if id, err := pawl.ParseID(pawl.TokenPrefix, subject); err == nil { // the session of a token ends with it
		parent, err := found(g.Find(ctx, id))
		if err != nil || parent == nil {
			return nil, err
		}
		p = principalOf(parent)
	}
	g.extend(ctx, token)
	if p.ExpiresAt == 0 || p.ExpiresAt > token.ExpiresAt || p.Token == token.ID {
		p.ExpiresAt = token.ExpiresAt
	}
	p.Session = token.ID
	return p, nil
}

// found returns a token that was looked up, or nil if there is none, or it has ended.
func found(t *pawl.Token, err error) (*pawl.Token, error) {
	if err != nil && pawl.KindOf(err) == pawl.NotFound || err == nil && t.State != lifecycle.TokenActive {
		return nil, nil
	}
	return t, err
}

// secretOf returns the secret in the header Authorization: Bearer SECRET.
func secretOf(values []string) (string, bool) {
	scheme, secret, _ := strings.Cut(values[0], " ")
	return secret, len(values) == 1 && strings.EqualFold(scheme, "Bearer")
}

// recent returns what is known of a secret, or nil.
func (g *Gate) recent(sum [32]byte) *known {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[sum]
}

// keep remembers whom a sum lets in, as it was just read; nil is nobody.
func (g *Gate) keep(sum [32]byte, p *Principal) *known {
	k := &known{principal: p, read: g.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p != nil {
		k.rate = of(g.rates, p.Token, rate.Limit(Rate), Burst)
	}
	room(g.known, maxKnown)
	g.known[sum] = k
	return k
}

// of returns the limiter of a token.
func of(m map[pawl.ID]*rate.Limiter, token pawl.ID, each rate.Limit, burst int) *rate.Limiter {
	l := m[token]
	if l == nil {
		room(m, maxKnown)
		l = rate.NewLimiter(each, burst)
		m[token] = l
	}
	return l
}

func (g *Gate) drop(sum [32]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, sum)
}

// Forget makes the gate read a token, or a session, again, since it was revoked.
func (g *Gate) Forget(id pawl.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for sum, k := range g.known {
		if p := k.principal; p != nil && (p.Token == id || p.Session == id) {
			delete(g.known, sum)
		}
	}
}

// refuse counts a failed sign-in of an address, and returns its error.
func (g *Gate) refuse(address string) error {
	const what = "too many sign-ins from this address have failed"
	if err := limited(g.failures(address), g.Now(), what); err != nil {
		return err
	}
	return ErrUnauthenticated
}

// exhausted reports whether an address has no failed sign-in left: nothing that the gate does
// not know is then looked up for it.
func (g *Gate) exhausted(address string) bool {
	return g.failures(address).TokensAt(g.Now()) < 1
}

func (g *Gate) failures(address string) *rate.Limiter {
	from := origin(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.failed[from]
	if l == nil {
		room(g.failed, maxAddresses)
		l = rate.NewLimiter(rate.Every(failedEvery), FailedSigns)
		g.failed[from] = l
	}
	return l
}

// origin returns the address of a caller without its port. One subscriber has many addresses
// of IPv6, with the first 64 bits in common.
func origin(address string) netip.Prefix {
	host, _, _ := net.SplitHostPort(address)
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	if a = a.Unmap().WithZone(""); a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // bits fit
	return p
}

// limited takes one event of a limiter, or returns when there is one.
func limited(l *rate.Limiter, now time.Time, what string) error {
	r := l.ReserveN(now, 1)
	if after := r.DelayFrom(now); after > 0 {
		r.CancelAt(now)
		return &LimitedError{what, after}
	}
	return nil
}

// room makes room in a map for one more, by forgetting any other.
func room[K comparable, V any](m map[K]V, most int) {
	for k := range m {
		if len(m) < most {
			return
		}
		delete(m, k)
	}
}
