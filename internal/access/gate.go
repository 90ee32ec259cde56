package access

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/bearer"
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
	known  map[[32]byte]*known // by the sum of the secret
	failed map[netip.Prefix]*rate.Limiter
}

// A known token was let in before.
type known struct {
	principal *Principal
	read      time.Time
	rate      *rate.Limiter
}

// New returns a gate.
func New(c Config) *Gate {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Gate{Config: c, known: map[[32]byte]*known{}, failed: map[netip.Prefix]*rate.Limiter{}}
}

// Enter returns who sends a request: the values of its header Authorization, and the address
// that it comes from. The error is ErrUnauthenticated, a *LimitedError, or that of Find.
func (g *Gate) Enter(ctx context.Context, authorization []string, address string) (*Principal, error) {
	if len(authorization) == 0 {
		if g.Required {
			return &Principal{}, nil
		}
		return Local(), nil
	}
	secret, is := secretOf(authorization)
	id, wellFormed := bearer.Parse(secret)
	if !is || !wellFormed {
		return nil, g.refuse(address)
	}
	sum := bearer.Sum(secret)
	k := g.recent(sum)
	if k == nil || g.Now().Sub(k.read) >= Fresh {
		if k == nil && g.exhausted(address) {
			return nil, g.refuse(address)
		}
		token, err := g.Find(ctx, id)
		if err != nil && pawl.KindOf(err) != pawl.NotFound {
			return nil, err
		}
		if err != nil || token.State != lifecycle.TokenActive || !bearer.Is(secret, token.Sum) {
			g.drop(sum)
			return nil, g.refuse(address)
		}
		k = g.keep(sum, token)
	}
	if at := k.principal.ExpiresAt; at != 0 && at <= pawl.Micros(g.Now()) {
		g.drop(sum)
		return nil, g.refuse(address)
	}
	return k.principal, limited(k.rate, g.Now(), "this token sends more than 200 requests in a second")
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

// keep remembers a token as it was just read.
func (g *Gate) keep(sum [32]byte, t *pawl.Token) *known {
	k := &known{principal: principalOf(t), read: g.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.known[sum]; old != nil {
		k.rate = old.rate
	} else {
		k.rate = rate.NewLimiter(Rate, Burst)
	}
	room(g.known, maxKnown)
	g.known[sum] = k
	return k
}

func (g *Gate) drop(sum [32]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, sum)
}

// Forget makes the gate read a token again, since it was revoked.
func (g *Gate) Forget(id pawl.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for sum, k := range g.known {
		if k.principal.Token == id {
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
