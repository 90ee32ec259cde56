package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

var (
	one, two = bytes.Repeat([]byte{0xA1}, KeySize), bytes.Repeat([]byte{0xB2}, KeySize)
	oneText  = base64.StdEncoding.EncodeToString(one)
	twoText  = hex.EncodeToString(two)

	ann, bob = [16]byte{1}, [16]byte{2}
	secret   = [SecretSize]byte([]byte("a secret of thirty-two bytes, ok"))
)

func ring(t *testing.T, text string) *Ring {
	t.Helper()
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestParse: a key a line, in base64 or hexadecimal; a fault names its line, and has nothing of a key.
func TestParse(t *testing.T) {
	t.Parallel()
	both := ring(t, "# the new one\n"+oneText+"\n\n  "+twoText+"\r\n")
	if all := both.Fingerprints(); len(all) != 2 || all[0] == all[1] || len(all[0]) != 16 || both.First() != all[0] || strings.Contains(twoText, all[1]) {
		t.Errorf("fingerprints %v", all)
	}
	if a, b := ring(t, oneText), ring(t, hex.EncodeToString(one)); a.First() != b.First() {
		t.Errorf("one key is %s in base64, and %s in hexadecimal", a.First(), b.First())
	}
	for text, want := range map[string]string{
		"":                                       "it has no key",
		"# nothing\n\n":                          "it has no key",
		oneText + "\nplain":                      "line 2: want 32 bytes",
		"plain\nplain":                           "line 2: want 32 bytes",
		oneText + "\n" + oneText:                 "line 2: key ",
		oneText + "\n" + hex.EncodeToString(one): "is there already",
		oneText[:40]:                             "line 1: want 32 bytes in base64 (44 characters) or in hexadecimal (64)",
		"\n" + twoText[:62] + "zz":               "line 2: want 32 bytes",
		oneText + twoText:                        "line 1: want 32 bytes",
		base64.RawStdEncoding.EncodeToString(one): "line 1: want 32 bytes",
		manyKeys(maxKeys + 1):                     "line 17: want at most 16 keys",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), oneText[:20]) || strings.Contains(err.Error(), twoText[:20]) {
			t.Errorf("the error has a part of the key: %v", err)
		}
	}
}

func manyKeys(n int) (text string) {
	for i := range n {
		text += hex.EncodeToString(append([]byte{byte(i)}, one[1:]...)) + "\n"
	}
	return text
}

// TestRead: what cannot be read is invalid, with the file and how a key is made.
func TestRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	for text, want := range map[string]string{"": "it has no key", strings.Repeat("#\n", maxFile): "it has more than"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := Read(file + "-none"); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte(oneText), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(file); err != nil || r.First() != ring(t, oneText).First() {
		t.Errorf("%v, %v", r, err)
	}
}

// TestEncrypt: a secret is decrypted by every ring that has its key, wherever in its file, and by no
// other; two encryptions of it differ.
func TestEncrypt(t *testing.T) {
	t.Parallel()
	old, rotated, other := ring(t, oneText), ring(t, twoText+"\n"+oneText), ring(t, twoText)
	stored := old.Encrypt(ann, secret)
	if len(stored) == SecretSize || bytes.Contains(stored, secret[:8]) || KeyOf(stored) != old.First() {
		t.Errorf("stored %x with key %q", stored, KeyOf(stored))
	}
	if bytes.Equal(stored, old.Encrypt(ann, secret)) {
		t.Error("two encryptions of a secret are the same")
	}
	for _, r := range []*Ring{old, rotated} {
		if got, err := r.Decrypt(ann, stored); err != nil || got != secret {
			t.Errorf("%v: %v", r.Fingerprints(), err)
		}
	}
	if KeyOf(rotated.Encrypt(ann, secret)) != other.First() {
		t.Error("the first key does not encrypt")
	}
	for want, r := range map[string]*Ring{"has no key": nil, "this process has " + other.First(): other} {
		got, err := r.Decrypt(ann, stored)
		if pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "encrypted with key "+old.First()) || !strings.Contains(err.Error(), want) || got != [SecretSize]byte{} {
			t.Errorf("%x, %v", got, err)
		}
	}
}

// TestPlain: without a key a secret is stored as it is, and any ring returns it.
func TestPlain(t *testing.T) {
	t.Parallel()
	var none *Ring
	stored := none.Encrypt(ann, secret)
	for _, r := range []*Ring{none, {}, ring(t, oneText)} {
		if got, err := r.Decrypt(ann, stored); err != nil || got != secret || KeyOf(stored) != "" {
			t.Errorf("%x, %v", got, err)
		}
	}
	if IsNone(stored) || !IsNone(None()) || !IsNone(nil) {
		t.Error("a secret is none, or none is one")
	}
}

// TestDecryptOnly: with "plain" in front the keys decrypt, and what is stored next is stored as it is.
func TestDecryptOnly(t *testing.T) {
	t.Parallel()
	encrypted := ring(t, oneText).Encrypt(ann, secret)
	back := ring(t, "# the way back\nplain\n"+oneText)
	if got, err := back.Decrypt(ann, encrypted); err != nil || got != secret {
		t.Errorf("%x, %v", got, err)
	}
	for _, r := range []*Ring{back, ring(t, "plain")} {
		if stored := r.Encrypt(ann, secret); !r.Given() || r.First() != "" || KeyOf(stored) != "" {
			t.Errorf("given %t, first %q, stored with key %q", r.Given(), r.First(), KeyOf(stored))
		}
	}
}

// TestModes: a file that others can read, or its group can write, is refused.
func TestModes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(oneText), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true, 0o644: false, 0o660: false, 0o604: false, 0o602: false, 0o666: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); fine != (err == nil) || !fine && pawl.KindOf(err) != pawl.Refused {
			t.Errorf("mode %04o: %v, want it read: %t", mode, err, fine)
		}
	}
}

// TestTampered: whatever bit of what is stored has changed, and whatever its length, it is refused;
// so is what was moved to another owner. Nothing panics.
func TestTampered(t *testing.T) {
	t.Parallel()
	r := ring(t, oneText+"\n"+twoText)
	stored := r.Encrypt(ann, secret)
	refused := func(what string, owner [16]byte, b []byte) {
		t.Helper()
		got, err := r.Decrypt(owner, b)
		if pawl.KindOf(err) != pawl.Conflict || got != [SecretSize]byte{} {
			t.Errorf("%s: %x, %v", what, got, err)
		}
	}
	refused("another owner", bob, stored)
	for i := range stored {
		for bit := range 8 {
			changed := bytes.Clone(stored)
			changed[i] ^= 1 << bit
			refused("a changed bit", ann, changed)
		}
	}
	for n := range len(stored) {
		if n != SecretSize {
			refused("cut short", ann, stored[:n])
		}
	}
	refused("longer", ann, append(bytes.Clone(stored), 0))
	other := r.Encrypt(ann, secret)
	copy(other[1:], ring(t, twoText).Encrypt(ann, secret)[1:header])
	refused("the fingerprint of another key", ann, other)
}
