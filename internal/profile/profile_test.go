package profile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

const good = `# mine
default: prod
profiles:
  # for real
  prod:
    server: https://pawl.example.com # by the proxy
    token_command: echo secret
    confirm: true
  dev: {server: "http://127.0.0.1:7295"}
`

// TestParse: what a file says, and one clear error with the key, the value and what is allowed.
func TestParse(t *testing.T) {
	t.Parallel()
	f, err := Parse("c.yaml", []byte(good))
	want := &File{Default: "prod", Profiles: map[string]Profile{
		"prod": {Server: "https://pawl.example.com", TokenCommand: "echo secret", Confirm: true}, "dev": {Server: "http://127.0.0.1:7295"}}}
	if diff := cmp.Diff(want, f); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	of := func(keys string) string { return "profiles: {a: {server: https://h, " + keys + "}}" }
	for _, tt := range []struct{ name, source, says string }{
		{"empty", "", "c.yaml:1:1: the file is empty"},
		{"unknown key", of("tokenfile: x"), `c.yaml:1:35: profiles.a.tokenfile: unknown key "tokenfile" (did you mean "token_file"?)`},
		{"unknown key at the top", "profiles: {}\nprofile: x", `unknown key "profile" (did you mean "profiles"?)`},
		{"no server", "profiles: {a: {ca: x}}", `profiles.a: "server" is missing`},
		{"no URL", "profiles: {a: {server: h}}", "profiles.a.server: the URL of the server: want https://HOST"},
		{"http away", "profiles: {a: {server: http://h}}", "http is for the loopback interface only"},
		{"two tokens", of("token_file: x, token_command: y"), "profiles.a.token_command: goes without token_file"},
		{"half a certificate", of("client_cert: x"), "profiles.a: client_cert and client_key: want both, or none"},
		{"confirm", of("confirm: maybe"), "profiles.a.confirm: want true or false"},
		{"name", "profiles: {-a: {server: https://h}}", `"-a" is not a name: letters`},
		{"default", "default: prodd\nprofiles: {prod: {server: https://h}}", `default: there is no profile "prodd"`},
		{"several lines", of(`token_command: "a\nb"`), "profiles.a.token_command"},
	} {
		if _, err := Parse("c.yaml", []byte(tt.source)); err == nil || pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.says)
		}
	}
}

// TestMode: a file that says where secrets are is the owner's alone; another may be read by all.
func TestMode(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]pawl.Kind{good: pawl.Refused, "profiles: {a: {server: https://h, client_cert: c, client_key: k}}": pawl.Refused, "profiles: {a: {server: https://h}}": 0} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		if err != nil && pawl.KindOf(err) != want || err == nil && want != 0 {
			t.Errorf("%s: %v", source, err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err != nil {
			t.Error(err)
		}
	}
}

// TestChange: commands at once lose nothing, comments stay, a link stays a link, and a change
// that is refused leaves the file as it is.
func TestChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, path := filepath.Join(dir, "dotfiles.yaml"), filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(target, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if err := Change(path, func(f *File) error {
				f.Profiles[fmt.Sprint("p", i)] = Profile{Server: "https://h"}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := Change(path, func(f *File) error {
		delete(f.Profiles, "dev")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := Change(path, func(f *File) error {
		f.Default = "none"
		return nil
	}); err == nil {
		t.Error("a default that does not exist is written")
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v\n%s", err, cmp.Diff(string(before), string(after)))
	}
	for _, want := range []string{"# mine", "# for real", "# by the proxy", "p0:", "p7:"} {
		if !strings.Contains(string(after), want) {
			t.Errorf("%q is missing in\n%s", want, after)
		}
	}
	f, err := Read(path)
	if err != nil || len(f.Profiles) != 9 || f.Profiles["prod"].TokenCommand != "echo secret" {
		t.Errorf("%v\n%s", err, after)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
}

// TestSecret: what a token command prints is the secret, and is in no error.
func TestSecret(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command, secret, says string
		kind                  pawl.Kind
	}{
		{"echo ' hush '; echo told >&2", "hush", "", 0},
		{"echo hush; exit 3", "", "it ended with exit status 3", pawl.Refused},
		{"true", "", "it printed nothing", pawl.Refused},
		{"yes hush", "", "it took longer than", pawl.Unavailable},
		{"yes hush | head -c 100000", "", "more than 4096 bytes", pawl.Invalid},
		{"echo hush; sleep 5", "", "it took longer than 300ms", pawl.Unavailable},
		{"sleep 5 & echo hush; wait", "", "it took longer than 300ms", pawl.Unavailable}, // a child that holds the pipe
	} {
		t.Run(tt.command, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			limit := time.Minute
			if strings.Contains(tt.says, "longer") {
				limit = 300 * time.Millisecond
			}
			got, err := Secret(t.Context(), tt.command, limit, &stderr)
			if tt.kind == 0 {
				if err != nil || got != tt.secret || stderr.String() != "told\n" {
					t.Errorf("%q, %v, and %q", got, err, &stderr)
				}
				return
			}
			if pawl.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v, want %s", err, tt.says)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Secret(gone, "echo x", time.Minute, &bytes.Buffer{}); err == nil {
		t.Error("it runs after the end")
	}
}
