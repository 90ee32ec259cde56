package session

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"tk_019ac1f0a3c47d5e8f00112233445566", "oidc:ada@example.com", "oidc:Ädä_1.2-3"} {
		name, err := Name(subject, [6]byte{1, 2, 0xff})
		if err != nil || !Reserved(name) {
			t.Errorf("%q: %q, %v; want a reserved name", subject, name, err)
		}
		if got, is := Subject(name); !is || got != subject {
			t.Errorf("%q: %q, %v; want %q", name, got, is, subject)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			t.Errorf("%q is no name of a token", name)
		}
	}
	if _, err := Name("oidc:"+strings.Repeat("@", 36), [6]byte{}); pawl.KindOf(err) != pawl.Invalid || err == nil {
		t.Errorf("a long subject: %v; want it refused", err)
	}
	for _, name := range []string{"ci", "session.", "session.0102", "session.010203040506", "session.010203040506.a_", "session.010203040506.a_zz", "session.01020304050x.oidc_3aada", "session.010203040506.engine", "session.010203040506.oidc_3a"} {
		if got, is := Subject(name); is {
			t.Errorf("%q: %q; want none", name, got)
		}
	}
}
