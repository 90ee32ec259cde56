package crew

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// TestCksum: the checksum is that of cksum(1) (C6).
func TestCksum(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 2, 255, 256, 257, 70_000} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		c := exec.Command("cksum")
		c.Stdin = strings.NewReader(string(data))
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d %d\n", cksum(data), size); string(out) != want {
			t.Errorf("%d bytes: cksum(1) says %q, want %q", size, out, want)
		}
	}
}

func send(t *testing.T, f *Folder, from, to, body string) *Message {
	t.Helper()
	m := &Message{From: from, To: to, Type: "note", Body: body}
	if err := f.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// texts reads an inbox, and acknowledges it.
func texts(t *testing.T, f *Folder, reader string) (list []string, damage []Damage) {
	t.Helper()
	in, err := f.Inbox(reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range in.Messages {
		list = append(list, fmt.Sprintf("%s/%d %s", m.From, m.Sequence, m.Body))
	}
	if err := f.Ack(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return list, in.Damage
}

// TestInbox: a reader gets what is for it, in order, until it acknowledges it (C6).
func TestInbox(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	send(t, f, Orchestrator, "auth", "hello <auth> & co")
	send(t, f, Orchestrator, Everybody, "all")
	send(t, f, "docs", "auth", "look at\nthis")
	send(t, f, "auth", Orchestrator, "done")
	for range 2 { // the first is not acknowledged
		in, err := f.Inbox("auth")
		if err != nil || len(in.Messages) != 3 {
			t.Fatalf("%+v, %v", in, err)
		}
	}
	for reader, want := range map[string][]string{
		"auth":       {"docs/1 look at\nthis", "orchestrator/1 hello <auth> & co", "orchestrator/2 all"},
		"docs":       {"orchestrator/2 all"},
		Orchestrator: {"auth/1 done"},
	} {
		for _, want := range [][]string{want, nil} {
			got, damage := texts(t, f, reader)
			if diff := cmp.Diff(want, got); diff != "" || damage != nil {
				t.Errorf("%s: damage %v (-want +got):\n%s", reader, damage, diff)
			}
		}
	}
	for field, m := range map[string]Message{
		"from": {From: "A", To: "auth", Type: "note"}, "to": {From: "auth", To: "../x", Type: "note"}, "type": {From: "auth", To: "docs", Type: "N"},
		`"*"`: {From: "auth", To: Everybody, Type: "note"}, "body": {From: "auth", To: "docs", Type: "note", Body: strings.Repeat("x", maxBody+1)},
		"task": {From: "auth", To: "docs", Type: "note", Task: "a/b"},
	} {
		if err := f.Send(t.Context(), &m); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestDamagedMessages: a torn tail is cut off and kept, damage between lines is named and read
// past, and lines of other programs count as unsequenced (C6).
func TestDamagedMessages(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	path := f.messages("auth")
	for i := range 3 {
		send(t, f, "auth", Orchestrator, fmt.Sprint("line ", i))
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	old := `{"ts": "2026-01-10T14:00:00Z", "from": "auth", "type": "done", "task": "skills-abc"}` + "\n"

	write(strings.Join(lines, "") + lines[0][:40])
	if got, damage := texts(t, f, Orchestrator); len(got) != 3 || damage != nil {
		t.Errorf("with a torn tail: %v, %v", got, damage)
	}
	if m := send(t, f, "auth", Orchestrator, "next"); m.Sequence != 4 {
		t.Errorf("sequence %d after a torn tail", m.Sequence)
	}
	if torn, err := filepath.Glob(path + ".torn-*"); err != nil || len(torn) != 1 {
		t.Errorf("torn tails kept: %v, %v", torn, err)
	}
	got, damage := texts(t, f, Orchestrator)
	if diff := cmp.Diff([]string{"auth/4 next"}, got); diff != "" || damage != nil {
		t.Errorf("after a torn tail: %v\n%s", damage, diff)
	}

	zero := strings.Repeat("\x00", 20) + "\n"
	write(lines[0] + zero + strings.Replace(lines[1], "line 1", "line 7", 1) + old + lines[2] + `{"ts":"","from":"docs","type":"x"}` + "\n" + strings.Repeat("x", maxLine+10) + "\n" + old)
	got, damage = texts(t, f, "docs") // whose cursor is at the beginning
	if got != nil || len(damage) != 4 {
		t.Errorf("%v, damage %v", got, damage)
	}
	if m := send(t, f, "auth", "docs", "on"); m.Sequence != 4 {
		t.Errorf("sequence %d behind an unsequenced line", m.Sequence)
	}
	if got, damage = texts(t, f, "docs"); cmp.Diff([]string{"auth/4 on"}, got) != "" || damage != nil {
		t.Errorf("%v, damage %v", got, damage)
	}
	// A file that is shorter than what was read is read again, and then goes on.
	write(lines[0] + old)
	got, damage = texts(t, f, Orchestrator)
	if diff := cmp.Diff([]string{"auth/1 line 0", "auth/0 "}, got); diff != "" || len(damage) != 1 {
		t.Errorf("of a shorter file: %v\n%s", damage, diff)
	}
	if got, damage = texts(t, f, Orchestrator); got != nil || damage != nil {
		t.Errorf("read again: %v, %v", got, damage)
	}
}

// shellSend returns the script of docs/crew-files.md that sends a message.
func shellSend(t *testing.T) string {
	t.Helper()
	_, script, _ := strings.Cut(string(read(t, "../../docs/crew-files.md")), "```sh\n")
	script, _, ok := strings.Cut(script, "```")
	if !ok {
		t.Fatal("docs/crew-files.md has no script")
	}
	return script
}

// TestShellSends: a shell and this program write to one file of messages at once, and every line is
// there once, in sequence (C6).
func TestShellSends(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	const each, writers = 8, 3
	script := shellSend(t)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				body := fmt.Sprintf("%d-%d", w, i)
				if w == 0 {
					send(t, f, "auth", Orchestrator, body)
				} else if out, err := exec.Command("sh", "-c", script, "sh", f.Dir, "auth", body).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	all.Wait()
	in, err := f.Inbox(Orchestrator)
	if err != nil || in.Damage != nil || len(in.Messages) != each*writers {
		t.Fatalf("%+v, %v", in, err)
	}
	seen := map[string]bool{}
	for i, m := range in.Messages {
		if m.Sequence != int64(i+1) || seen[m.Body] {
			t.Errorf("line %d: %+v", i, m)
		}
		seen[m.Body] = true
	}
}

// TestSendFails: a message that could not be written is not there, nor is a part of it (C6).
func TestSendFails(t *testing.T) {
	t.Parallel()
	for _, op := range []durable.Op{durable.OpAppend, durable.OpSync} {
		f := newFolder(t)
		send(t, f, "auth", Orchestrator, "one")
		f.Disk.Hook = func(o durable.Op, _ string, after bool) error {
			if o == op && after {
				return syscall.ENOSPC
			}
			return nil
		}
		if err := f.Send(t.Context(), &Message{From: "auth", To: Orchestrator, Type: "note"}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", op, err)
		}
		f.Disk.Hook = nil
		send(t, f, "auth", Orchestrator, "two")
		if got, damage := texts(t, f, Orchestrator); cmp.Diff([]string{"auth/1 one", "auth/2 two"}, got) != "" || damage != nil {
			t.Errorf("%s: %v, %v", op, got, damage)
		}
	}
}
