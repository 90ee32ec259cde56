package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestCookbook does what docs/cookbook.md says, as it is written there: in each
// section its workflows are files, every one of them valid, and its commands are
// run one after another, beside a `pawl dev` if they start none (T12).
func TestCookbook(t *testing.T) {
	t.Parallel()
	book, err := os.ReadFile("../../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(book), "\n## ")[1:]
	if len(sections) < 10 {
		t.Fatalf("%d sections; want ten patterns", len(sections))
	}
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			newKitchen(t).cook(text)
		})
	}
}

var (
	fences   = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")
	fileName = regexp.MustCompile(`^# (\S+\.yaml)\n`)
	assigns  = regexp.MustCompile(`^([A-Z]+)=`)
)

// A kitchen is where a section of the cookbook is tried: a folder, a database,
// and the variables that its commands have set.
type kitchen struct {
	*testing.T
	dir string
	env []string
}

func newKitchen(t *testing.T) *kitchen {
	dir := t.TempDir()
	return &kitchen{T: t, dir: dir, env: append(os.Environ(), "PATH="+path(t), "USER=ada", "PAWL_DATABASE="+filepath.Join(dir, "pawl.db"))}
}

func (k *kitchen) cook(text string) {
	if !strings.Contains(text, "$ pawl dev &") {
		k.background("pawl dev")
	}
	files, commands := 0, 0
	for _, fence := range fences.FindAllStringSubmatch(text, -1) {
		switch fence[1] {
		case "yaml":
			files++
			k.write(fence[2])
		case "console":
			commands++
			k.console(fence[2])
		default:
			k.Errorf("a block of %s: want yaml or console", fence[1])
		}
	}
	if files == 0 || commands == 0 {
		k.Errorf("%d workflows, %d blocks of commands: want at least one of each", files, commands)
	}
}

// write makes the file that a block of YAML names in its first line.
func (k *kitchen) write(src string) {
	name := fileName.FindStringSubmatch(src)
	if name == nil {
		k.Fatalf("the first line does not name a file:\n%s", src)
	}
	if err := os.WriteFile(filepath.Join(k.dir, name[1]), []byte(src), 0o600); err != nil {
		k.Fatal(err)
	}
	if out, err := k.command(k.Context(), "pawl validate "+name[1]).CombinedOutput(); err != nil {
		k.Fatalf("%s is not valid: %v\n%s", name[1], err, out)
	}
}

// console runs the commands of a block. The lines below a command are what it
// prints, in this order and with others between them; … stands for anything.
func (k *kitchen) console(block string) {
	lines := strings.Split(strings.TrimSpace(block), "\n")
	for len(lines) > 0 {
		command, ok := strings.CutPrefix(lines[0], "$ ")
		if !ok {
			k.Fatalf("%q is below no command", lines[0])
		}
		n := 1
		for n < len(lines) && !strings.HasPrefix(lines[n], "$ ") {
			n++
		}
		if alone, ok := strings.CutSuffix(command, " &"); ok {
			k.background(alone)
		} else {
			k.run(command, lines[1:n])
		}
		lines = lines[n:]
	}
}

// run repeats a command until it does what is written: a reader takes longer to
// type it than the job takes to get there. Without lines it has to succeed.
func (k *kitchen) run(command string, want []string) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 30*time.Second)
	defer cancel()
	var last string
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		script := command
		name := assigns.FindStringSubmatch(command)
		if name != nil {
			script += ` && printf %s "$` + name[1] + `"`
		}
		out, err := k.command(ctx, script).CombinedOutput()
		if len(want) == 0 && err == nil || len(want) > 0 && shows(string(out), want) {
			if name != nil {
				k.env = append(k.env, name[1]+"="+string(out))
			}
			return
		}
		if ctx.Err() == nil {
			last = fmt.Sprintf("%s(%v)", out, err)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			k.Fatalf("$ %s\nprinted\n%s\nwant\n%s", command, last, strings.Join(want, "\n"))
		}
	}
}

// shows reports whether the output has the lines, in this order.
func shows(out string, want []string) bool {
	lines := strings.Split(out, "\n")
	for _, w := range want {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(packed(w)), "…", ".*") + "$")
		for {
			if len(lines) == 0 {
				return false
			}
			line := packed(lines[0])
			lines = lines[1:]
			if pattern.MatchString(line) {
				break
			}
		}
	}
	return true
}

// packed returns a line without the blanks that put it in a column.
func packed(line string) string { return strings.Join(strings.Fields(line), " ") }

// background starts a command that is stopped when the section is over.
func (k *kitchen) background(command string) {
	ctx, stop := context.WithCancel(context.Background())
	cmd := k.command(ctx, "exec "+command)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was interrupted
	})
}

func (k *kitchen) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env = k.dir, k.env
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// The check of what is printed can fail.
func TestShows(t *testing.T) {
	t.Parallel()
	const out = "job j_17 is paused\n  step load  complete\ndone\n"
	for _, test := range []struct {
		want []string
		ok   bool
	}{
		{[]string{"job j_… is paused", "done"}, true},
		{[]string{"step load  complete"}, true},
		{[]string{"done", "job j_… is paused"}, false},
		{[]string{"done", "done"}, false},
		{[]string{"job j_17"}, false},
		{[]string{"job (.*)"}, false},
	} {
		if got := shows(out, test.want); got != test.ok {
			t.Errorf("shows(%q) = %v", test.want, got)
		}
	}
}
