package worker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/workflow"
)

// (T6) what an end means.
func TestCommandEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		work      *workflow.Work
		class     string
		permanent bool
		message   string
		metadata  string
	}{
		{"exit 3", script("echo one >&2; echo two >&2; exit 3"), "exit_3", false, "exit status 3: two", `{"exit_code":3,"stderr":"one\ntwo\n"}`},
		{"exit 3, silent", script("exit 3"), "exit_3", false, "exit status 3", `{"exit_code":3,"stderr":""}`},
		{"configured as permanent", script("exit 2"), "exit_2", true, "exit status 2", `{"exit_code":2,"stderr":""}`},
		{"sh -e", script("false; echo not reached"), "exit_1", false, "exit status 1", `{"exit_code":1,"stderr":""}`},
		{"killed", script("kill -9 $$"), "signal_9", false, "killed by signal 9 (killed)", `{"signal":9,"stderr":""}`},
		{"terminated by another", script("kill -15 $$"), "signal_15", false, "killed by signal 15 (terminated)", `{"signal":15,"stderr":""}`},
		{"stderr is not UTF-8", script(`printf 'a\377b\n' >&2; exit 1`), "exit_1", false, "exit status 1: a?b", `{"exit_code":1,"stderr":"a?b\n"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			task := newTask(t, test.work)
			task.PermanentExitCodes = []int{2}
			f := wantFailure(t, execute(t, context.Background(), task), test.class, test.permanent)
			if f.Message != test.message || string(f.Metadata) != test.metadata {
				t.Errorf("got %q %s\nwant %q %s", f.Message, f.Metadata, test.message, test.metadata)
			}
		})
	}
}

// (T6) what cannot be started fails for good, and clearly.
func TestCommandStarts(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "#!/bin/sh\n", 0o600)
	write("noshebang", "nothing\n", 0o700)
	write("nointerpreter", "#!/nonexistent/interpreter\n", 0o700)
	if err := os.Mkdir(filepath.Join(base, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := func(w *workflow.Work, name, value string) *workflow.Work {
		w.Env = map[string]string{name: value}
		return w
	}
	dir := func(dir string) *workflow.Work {
		return &workflow.Work{Kind: workflow.KindCommand, Argv: []string{"true"}, Dir: dir}
	}
	tests := []struct {
		name    string
		work    *workflow.Work
		class   string
		message string
	}{
		{"not in PATH", env(argv("no-such-program"), "PATH", "/bin:."), "not_found", `command: "no-such-program" was not found in PATH "/bin:."`},
		{"the PATH is the step's", env(argv("sh"), "PATH", "/nonexistent"), "not_found", `command: "sh" was not found in PATH "/nonexistent"`},
		{"not executable in PATH", env(argv("plain"), "PATH", base), "not_executable", `command: "plain" is not executable: BASE/plain`},
		{"current folder in PATH", env(argv("noshebang"), "PATH", ".:"), "not_found", `command: "noshebang" was not found in PATH ".:"`},
		{"no such file", argv("./missing"), "not_found", `command: "./missing" was not found: BASE/missing does not exist`},
		{"a file as a folder", argv("./plain/x"), "not_found", `command: "./plain/x" was not found: BASE/plain/x does not exist`},
		{"not executable", argv("./plain"), "not_executable", `command: "./plain" is not executable: BASE/plain has mode -rw-------`},
		{"a folder", argv("./folder"), "not_executable", `command: "./folder" is not executable: BASE/folder is a folder`},
		{"no program", argv("./noshebang"), "not_executable", `command: "./noshebang" cannot start: it is neither a program nor does it begin with #!`},
		{"no interpreter", argv("./nointerpreter"), "not_found", `command: "./nointerpreter" cannot start: the interpreter it asks for does not exist`},
		{"no folder to run in", dir("missing"), "dir_not_found", `dir: BASE/missing does not exist`},
		{"a file to run in", dir("plain"), "dir_not_found", `dir: BASE/plain is not a folder`},
		{"nothing", argv(), "invalid_work", `command: no program is named`},
		{"NUL in argv", argv("echo", "a\x00b"), "invalid_work", `command: argument 1 has a NUL byte`},
		{"NUL in env", env(argv("true"), "A", "\x00"), "invalid_work", `env: the value of A has a NUL byte`},
		{"bad name in env", env(argv("true"), "A=B", "c"), "invalid_work", `env: "A=B" is not the name of a variable`},
		{"too long", argv("true", strings.Repeat("x", 1<<20)), "invalid_work", `command: "true" cannot start: its arguments and env are longer than the system allows`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			task := newTask(t, test.work)
			task.BaseDir = base
			f := wantFailure(t, execute(t, context.Background(), task), test.class, true)
			want := strings.ReplaceAll(test.message, "BASE", base)
			if f.Message != want {
				t.Errorf("got  %s\nwant %s", f.Message, want)
			}
		})
	}
}

// (T6) a worker that is out of room says so, and the step is tried again.
func TestCommandWithoutTemporaryFolder(t *testing.T) {
	t.Parallel()
	h := Command(CommandConfig{TempDir: filepath.Join(t.TempDir(), "missing")})
	wantFailure(t, h(context.Background(), newTask(t, argv("true"))), "start_failed", false)
}

// Arguments reach the program as they are: there is no shell.
func TestCommandHasNoShell(t *testing.T) {
	t.Parallel()
	task := newTask(t, argv(program("args", "$HOME", "a b", "; exit 1", "*")...))
	task.Output = workflow.OutputJSON
	wantOutput(t, execute(t, context.Background(), task), `["$HOME","a b","; exit 1","*"]`)
}

// (DESIGN: a clean environment) exactly what is listed, the step's, and Pawl's.
func TestCommandEnvironment(t *testing.T) {
	t.Parallel()
	task := newTask(t, argv(program("env")...))
	task.Work.Env = map[string]string{"FILE": "a=b", "LANG": "C", "PAWL_JOB_ID": "forged"}
	task.Output = workflow.OutputJSON
	temp := t.TempDir()
	r := Command(CommandConfig{
		TempDir: temp,
		Pass:    []string{"AWS_*", "EXACT"},
		Environ: func() []string {
			return []string{
				"PATH=/bin", "HOME=/home/x", "USER=x", "LOGNAME=x", "SHELL=/bin/sh", "LANG=de", "LC_ALL=de", "TZ=UTC",
				"TMPDIR=/tmp", "AWS_REGION=eu", "EXACT=1", "EXACTLY=2", "SECRET=s", "LD_PRELOAD=x", "PAWL_TOKEN=t", "PATHS=1", "broken",
			}
		},
	})(context.Background(), task)
	if r.Failure != nil {
		t.Fatal(r.Failure)
	}
	var got []string
	if err := json.Unmarshal(r.Output, &got); err != nil {
		t.Fatal(err)
	}
	for i, entry := range got {
		rest, under := strings.CutPrefix(entry, "PAWL_INPUT="+temp+"/pawl-attempt-")
		if _, name, ok := strings.Cut(rest, "/"); under && ok {
			got[i] = "PAWL_INPUT=" + name
		}
		rest, under = strings.CutPrefix(entry, "PAWL_OUTPUT="+temp+"/pawl-attempt-")
		if _, name, ok := strings.Cut(rest, "/"); under && ok {
			got[i] = "PAWL_OUTPUT=" + name
		}
	}
	want := []string{
		"AWS_REGION=eu", "EXACT=1", "FILE=a=b", "HOME=/home/x", "LANG=C", "LC_ALL=de", "LOGNAME=x", "PATH=/bin",
		"PAWL_ATTEMPT=2", "PAWL_CLAIM=4", "PAWL_INPUT=input.json", "PAWL_JOB_ID=j_1", "PAWL_OUTPUT=output.json", "PAWL_STEP_ID=st_1",
		"SHELL=/bin/sh", "TMPDIR=/tmp", "TZ=UTC", "USER=x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestCommandHasAPathInAnEmptyEnvironment(t *testing.T) {
	t.Parallel()
	h := Command(CommandConfig{TempDir: t.TempDir(), Environ: func() []string { return nil }})
	wantOutput(t, h(context.Background(), newTask(t, script(`echo "$PATH"`))), `"`+process.DefaultPath+`"`)
}

func TestCommandWorkingDirectory(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", "sub", "ABS"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			task := newTask(t, argv("pwd", "-P"))
			base, err := filepath.EvalSymlinks(task.BaseDir)
			if err != nil {
				t.Fatal(err)
			}
			want := filepath.Join(base, dir)
			task.Work.Dir = dir
			if dir == "ABS" {
				task.BaseDir, task.Work.Dir = "/", want
			}
			if err := os.MkdirAll(want, 0o700); err != nil {
				t.Fatal(err)
			}
			wantOutput(t, execute(t, context.Background(), task), `"`+want+`"`)
		})
	}
}

// (T8) inputs and results of dependencies reach the command in a file.
func TestCommandInput(t *testing.T) {
	t.Parallel()
	task := newTask(t, script(`cat "$PAWL_INPUT"; cat`)) // and stdin is empty
	task.Output = workflow.OutputJSON
	task.SetInput(json.RawMessage(`{"inputs":{"day":"x"},"needs":{"a":[1]}}`))
	wantOutput(t, execute(t, context.Background(), task), `{"inputs":{"day":"x"},"needs":{"a":[1]}}`)
	task.SetInput(nil)
	wantOutput(t, execute(t, context.Background(), task), `{}`)
}

// A script has no limit that arguments have, and sees its own name.
func TestCommandScript(t *testing.T) {
	t.Parallel()
	text := "x=" + strings.Repeat("x", 1<<20) + "\necho ${#x} ${0##*/} $#"
	wantOutput(t, execute(t, context.Background(), newTask(t, script(text))), `"1048576 run.sh 0"`)
}
