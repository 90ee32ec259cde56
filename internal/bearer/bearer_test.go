package bearer_test

import (
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/bearer"
)

var form = regexp.MustCompile(`^pawl_[0-9a-f]{32}_[0-9A-Za-z]{43}_[0-9a-f]{8}$`)

// TestSecrets: a secret names its token, and any other text does not.
func TestSecrets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := pawl.MakeID(time.Unix(rapid.Int64Range(1.8e9, 1.9e9).Draw(t, "second"), 0), rapid.Uint32().Draw(t, "counter"), rapid.Uint64().Draw(t, "entropy"))
		secret := bearer.Make(id, [bearer.Size]byte(rapid.SliceOfN(rapid.Byte(), bearer.Size, bearer.Size).Draw(t, "random")))
		if got, ok := bearer.Parse(secret); !ok || got != id || !form.MatchString(secret) {
			t.Fatalf("%s: id %v, %v", secret, got, ok)
		}
		if !bearer.Is(secret, bearer.Sum(secret)) {
			t.Fatal("it is not what it is")
		}
		at := rapid.IntRange(0, len(secret)-1).Draw(t, "at")
		typo := secret[:at] + string(rapid.SampledFrom([]rune("0aZ_ ")).Draw(t, "typo")) + secret[at+1:]
		if _, ok := bearer.Parse(typo); ok && typo != secret {
			t.Fatalf("a typo passes: %s", typo)
		}
		if bearer.Is(typo, bearer.Sum(secret)) != (typo == secret) {
			t.Fatalf("%s has the sum of %s", typo, secret)
		}
	})
}

func TestTheSmallestSecret(t *testing.T) {
	t.Parallel()
	secret := bearer.Make(pawl.MakeID(time.Unix(1.8e9, 0), 0, 0), [bearer.Size]byte{})
	if _, ok := bearer.Parse(secret); !ok || !form.MatchString(secret) {
		t.Errorf("%s: %v", secret, ok)
	}
	for _, text := range []string{"", "pawl_", secret[1:], secret + "0", secret[:len(secret)-1]} {
		if _, ok := bearer.Parse(text); ok {
			t.Errorf("%q passes", text)
		}
	}
}
