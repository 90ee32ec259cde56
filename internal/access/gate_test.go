package access_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/bearer"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A door is a gate with one token, on a clock of its own.
type door struct {
	*access.Gate
	t      testing.TB
	now    time.Time
	token  pawl.Token
	secret string
	finds  int
	err    error // of each look-up
}

func newDoor(t testing.TB, required bool) *door {
	t.Helper()
	d := &door{t: t, now: time.Unix(1.8e9, 0)}
	d.token = pawl.Token{ID: pawl.MakeID(d.now, 7, 7), Name: "ci", Roles: []pawl.Role{pawl.RoleOperator}, Workspaces: []string{"builds"}}
	d.token.State = lifecycle.TokenActive
	d.secret = bearer.Make(d.token.ID, [bearer.Size]byte{1})
	d.token.Sum = bearer.Sum(d.secret)
	d.Gate = access.New(access.Config{Required: required, Now: func() time.Time { return d.now }, Find: func(_ context.Context, id pawl.ID) (*pawl.Token, error) {
		d.finds++
		if id != d.token.ID {
			return nil, pawl.Errorf(pawl.NotFound, "there is no token")
		}
		found := d.token
		return &found, d.err
	}})
	return d
}

func (d *door) enter(secret, address string) (*access.Principal, error) {
	d.t.Helper()
	return d.Enter(d.t.Context(), access.Credentials{Authorization: []string{"Bearer " + secret}, Address: address})
}

func (d *door) in(what string) {
	d.t.Helper()
	if p, err := d.enter(d.secret, "192.0.2.1:1"); err != nil || p.Name != "token:ci" || !p.Holds(pawl.RoleViewer) || p.Holds(pawl.RoleAdmin) || p.Holds(pawl.RoleWorker) || !p.Sees("builds") || p.Sees("default") || p.Everywhere() {
		d.t.Errorf("%s: %+v, %v", what, p, err)
	}
}

func (d *door) out(what string) {
	d.t.Helper()
	if p, err := d.enter(d.secret, "192.0.2.1:1"); !errors.Is(err, access.ErrUnauthenticated) {
		d.t.Errorf("%s: %+v, %v", what, p, err)
	}
}

func TestNobodyAndLocal(t *testing.T) {
	t.Parallel()
	p, err := newDoor(t, true).Enter(t.Context(), access.Credentials{Address: "192.0.2.1:1"})
	if err != nil || len(p.Roles) != 0 || p.Sees("default") || p.Everywhere() {
		t.Errorf("nobody: %+v, %v", p, err)
	}
	p, err = newDoor(t, false).Enter(t.Context(), access.Credentials{Address: "127.0.0.1:1"})
	if err != nil || !p.Holds(pawl.RoleAdmin) || !p.Everywhere() {
		t.Errorf("local: %+v, %v", p, err)
	}
	if p := access.Of(context.Background()); len(p.Roles) != 0 || p.Sees("default") {
		t.Errorf("a context without a principal: %+v", p)
	}
}

// TestTokensAreReadAnew: a token counts for 5 seconds as it was read, and less if it is
// forgotten or expires.
func TestTokensAreReadAnew(t *testing.T) {
	t.Parallel()
	d := newDoor(t, true)
	d.in("at first")
	d.in("again")
	if d.finds != 1 {
		t.Errorf("%d look-ups, want 1", d.finds)
	}
	d.token.State = lifecycle.TokenRevoked // by another process
	d.now = d.now.Add(access.Fresh - 1)
	d.in("while it is fresh")
	d.now = d.now.Add(1)
	d.out("once it is not")

	d = newDoor(t, true)
	d.in("at first")
	d.token.State = lifecycle.TokenRevoked // by this process
	d.Forget(d.token.ID)
	d.out("forgotten")

	d = newDoor(t, true)
	d.token.ExpiresAt = d.now.Add(time.Second).UnixMicro()
	d.in("before its expiry")
	d.now = d.now.Add(time.Second)
	d.out("after it, though no deadline has fired")

	d = newDoor(t, true)
	d.err = errors.New("the disk is full")
	if _, err := d.enter(d.secret, "192.0.2.1:1"); !errors.Is(err, d.err) {
		t.Errorf("%v, want the fault of the look-up", err)
	}
	d.err = nil
	d.in("once the database is back")
}

// TestFailedSignIns: 10 in a minute for each address. Beyond that nothing is looked up for the
// address that is not known, and what is known is let in.
func TestFailedSignIns(t *testing.T) {
	t.Parallel()
	d := newDoor(t, true)
	d.in("at first")
	other := bearer.Make(pawl.MakeID(d.now, 8, 8), [bearer.Size]byte{})
	var limited *access.LimitedError
	for i := range access.FailedSigns + 2 {
		_, err := d.enter(other, "192.0.2.1:1")
		if is := errors.As(err, &limited); is != (i >= access.FailedSigns) || !is && !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("failure %d: %v", i+1, err)
		}
	}
	if d.finds != 1+access.FailedSigns || limited.After <= 0 || limited.After > 6*time.Second {
		t.Errorf("%d look-ups, and again after %s", d.finds, limited.After)
	}
	d.now = d.now.Add(access.Fresh)
	d.in("a known token from that address")
	if _, err := d.enter(other, "192.0.2.2:1"); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("another address: %v", err)
	}
	for i := range access.FailedSigns + 1 { // one subscriber of IPv6
		_, err := d.enter("x", fmt.Sprintf("[2001:db8::%d]:1", i))
		if errors.As(err, &limited) != (i == access.FailedSigns) {
			t.Errorf("address %d of a subscriber: %v", i, err)
		}
	}
}

// TestRate: 400 requests at once, then 200 a second.
func TestRate(t *testing.T) {
	t.Parallel()
	d := newDoor(t, true)
	for range access.Burst {
		d.in("within the burst")
	}
	var limited *access.LimitedError
	if _, err := d.enter(d.secret, "192.0.2.1:1"); !errors.As(err, &limited) {
		t.Errorf("one more: %v", err)
	}
	d.now = d.now.Add(time.Second / 2)
	for range access.Rate / 2 {
		d.in("half a second later")
	}
	if _, err := d.enter(d.secret, "192.0.2.1:1"); !errors.As(err, &limited) {
		t.Errorf("one more: %v", err)
	}
}

// BenchmarkEnter lets in a token that sends 100 requests a second.
func BenchmarkEnter(b *testing.B) {
	d := newDoor(b, true)
	for b.Loop() {
		d.now = d.now.Add(time.Second / 100)
		if _, err := d.enter(d.secret, "192.0.2.1:1"); err != nil {
			b.Fatal(err)
		}
	}
}
