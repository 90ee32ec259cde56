package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// A second process of the name gets an error that names the first; another name is free, and so
// is this one when the first has ended.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	_, stop := serve(t, dir, &fake{})
	_, err := Listen(dir, About{Name: "shop", Role: "supervisor"})
	want := fmt.Sprintf("supervisor shop already runs, pid %d", os.Getpid())
	var taken *TakenError
	if pawl.KindOf(err) != pawl.Conflict || err.Error() != want || !errors.As(err, &taken) || taken.Name != "shop" {
		t.Errorf("got %v, want %s", err, want)
	}
	other, err := Listen(dir, About{Name: "shop2", Role: "server"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	stop()
	serve(t, dir, &fake{})
}

// The socket and the lock that a killed process leaves do not keep the next one from
// listening (S14).
func TestStaleSocket(t *testing.T) {
	if dir := os.Getenv("PAWL_TEST_LISTEN"); dir != "" {
		l, err := Listen(dir, About{Name: "shop", Role: "supervisor"})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("listens")
		_ = l.Serve(context.Background(), &fake{stall: func() { fmt.Println("asked") }}, slog.New(slog.DiscardHandler))
	}
	t.Parallel()
	dir := folder(t)
	c := exec.Command(os.Args[0], "-test.run=^TestStaleSocket$")
	c.Env = append(os.Environ(), "PAWL_TEST_LISTEN="+dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	says := func(want string) {
		t.Helper()
		if line, err := said.ReadString('\n'); line != want+"\n" {
			t.Fatalf("%q, %v; want %s", line, err, want)
		}
	}
	says("listens")
	hosts, err := Hosts(t.Context(), dir)
	if err != nil || len(hosts) != 1 {
		t.Fatalf("Hosts: %v, %v", hosts, err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := hosts[0].History(context.Background(), "web")
		asked <- err
	}()
	says("asked")
	_ = c.Process.Kill()
	_ = c.Wait()
	var gone *GoneError
	if err := <-asked; pawl.KindOf(err) != pawl.Unavailable || !errors.As(err, &gone) {
		t.Errorf("it died while it was asked: %v; want a GoneError of kind Unavailable", err)
	}
	_, err = hosts[0].Services(t.Context())
	if pawl.KindOf(err) != pawl.Unavailable || !errors.As(err, &gone) || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("it is dead: %v", err)
	}
	if hosts, err := Hosts(t.Context(), dir); len(hosts) != 0 || err != nil {
		t.Errorf("Hosts: %v, %v; want none", hosts, err)
	}
	serve(t, dir, &fake{})
	if _, err := connect(t, dir, "shop").Services(t.Context()); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// A process that holds the socket and does not respond is reported, beside one that
// answers.
func TestDeafHost(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	serve(t, dir, &fake{})
	deaf, err := Listen(dir, About{Name: "deaf", Role: "supervisor"})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	hosts, err := Hosts(t.Context(), dir)
	if len(hosts) != 1 || hosts[0].Name() != "shop" || pawl.KindOf(err) != pawl.Unavailable || !strings.Contains(err.Error(), "deaf does not respond") {
		t.Errorf("Hosts: %v, %v", hosts, err)
	}
	if pid := fmt.Sprintf("pid %d", os.Getpid()); !strings.HasSuffix(hintOf(err), pid) {
		t.Errorf("hint %q, want %s", hintOf(err), pid)
	}
}

// The folder is the access control: one that is not fit is refused, by who listens
// and by who asks.
func TestFolders(t *testing.T) {
	t.Parallel()
	open, file, link := folder(t), folder(t), folder(t)
	must(t, os.Mkdir(open, 0o700), os.Chmod(open, 0o750), os.WriteFile(file, nil, 0o600), os.Symlink(os.TempDir(), link))
	for dir, want := range map[string]string{
		open: "may be entered by others: its mode is 0750, want 0700",
		file: "is not a folder",
		link: "is not a folder",
	} {
		_, err := Listen(dir, About{Name: "shop", Role: "supervisor"})
		if err == nil || !strings.Contains(err.Error(), want) || pawl.KindOf(err) != pawl.Refused {
			t.Errorf("Listen in %s: %v; want %s", dir, err, want)
		}
		if _, err := Connect(dir, "shop"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Connect to %s: %v; want %s", dir, err, want)
		}
		if _, err := Hosts(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) || pawl.KindOf(err) != pawl.Refused {
			t.Errorf("Hosts in %s: %v; want %s", dir, err, want)
		}
	}
	if hosts, err := Hosts(t.Context(), folder(t)); err != nil || hosts != nil {
		t.Errorf("Hosts of no folder: %v, %v", hosts, err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A folder of another user is refused, whatever its mode.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	must(t, os.Mkdir(dir, 0o700))
	if err := os.Chown(dir, 65534, -1); err != nil {
		dir = "/proc/1" // this user may not give folders away, so that one of root's has to do
	}
	if _, err := Connect(dir, "shop"); pawl.KindOf(err) != pawl.Refused {
		t.Errorf("got %v; want an error of kind Refused", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	for _, name := range []string{"", ".", "..", "a/b", ".hidden", "-x", "a b", strings.Repeat("n", 129)} {
		if _, err := Listen(dir, About{Name: name}); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%q: %v; want an error of kind Invalid", name, err)
		}
	}
	deep := filepath.Join(dir, strings.Repeat("d", 100))
	_, err := Listen(deep, About{Name: "shop"})
	if pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), "the system allows") {
		t.Errorf("a long path: %v", err)
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	uid := fmt.Sprint(os.Geteuid())
	for _, step := range []struct{ key, value, want string }{
		{"", "", "/tmp/pawl-" + uid},
		{"TMPDIR", "/var/tmp", "/var/tmp/pawl-" + uid},
		{"XDG_RUNTIME_DIR", "relative", "/var/tmp/pawl-" + uid},
		{"XDG_RUNTIME_DIR", "/run/user/7", "/run/user/7/pawl"},
		{"PAWL_RUNTIME_DIR", "/run/shop", "/run/shop"},
	} {
		env[step.key] = step.value
		if got := Dir(func(key string) string { return env[key] }); got != step.want {
			t.Errorf("%s=%s: %s, want %s", step.key, step.value, got, step.want)
		}
	}
}

// A connection that says nothing is hung up on.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	l, stop := serve(t, dir, &fake{})
	c, err := net.Dial("unix", l.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop() // it does not wait for it
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
}

// Who cleans the folder up takes the socket away for a moment only.
func TestRemovedSocket(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	l, err := Listen(dir, About{Name: "shop", Role: "supervisor"})
	if err != nil {
		t.Fatal(err)
	}
	l.checkInterval = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx, &fake{}, slog.New(slog.DiscardHandler)) }()
	c := connect(t, dir, "shop")
	answers := func() {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			_, err := c.Services(t.Context())
			if err == nil {
				return
			}
			select {
			case <-deadline:
				t.Fatal(err)
			case <-time.After(time.Millisecond):
			}
		}
	}
	answers()
	must(t, os.Remove(l.Path()))
	answers()
	must(t, os.RemoveAll(dir))
	answers()
	if _, err := Listen(dir, About{Name: "shop", Role: "supervisor"}); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("the name is free: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if hosts, err := os.ReadDir(dir); len(hosts) != 0 || err != nil {
		t.Errorf("left: %v, %v", hosts, err)
	}
}
