package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// everyAction calls f with each command that does something.
func everyAction(f func(c *cobra.Command)) {
	root := newTestRoot()
	addCompletion(root)
	root.InitDefaultHelpCmd()
	every(root, func(c *cobra.Command) {
		if c.Runnable() && (!c.HasSubCommands() || c.Name() == "worker" || c.Name() == "agent") {
			f(c)
		}
	})
}

// TestEveryCommandHasARow: what docs/commands.md says of where commands work is about all of them,
// and about no other. The program decides by the same rows.
func TestEveryCommandHasARow(t *testing.T) { // J4
	t.Parallel()
	missing := maps.Clone(rows)
	var b strings.Builder
	b.WriteString(commandsHead)
	everyAction(func(c *cobra.Command) {
		path := pathOf(c)
		r, ok := rows[path]
		if !ok {
			t.Errorf("pawl %s has no row in reach.go", path)
		}
		delete(missing, path)
		changes := ""
		if r.writes {
			changes = "yes"
		}
		fmt.Fprintf(&b, "| `pawl %s` | %s | %s | %s |\n", path, [...]string{"neither", "this host", "agents", "database", "files", "both"}[r.reach], changes, r.notes)
	})
	for path := range missing {
		t.Errorf("reach.go has a row for pawl %s, which is no command", path)
	}
	golden(t, "../../../docs/commands.md", b.String())
}

const commandsHead = `# Where each command works

This is generated (` + "`go test ./cmd/pawl -run TestEveryCommandHasARow -update`" + `) from the rows by which the program decides.
A script runs each command of "both" on a database and through a server on it, those of "files" without a server and with one,
and compares what they print.

| works on | what that means |
|---|---|
| both | the database, or a server: ` + "`--server`, `--profile`, `PAWL_SERVER`, `PAWL_PROFILE` or a default profile" + ` |
| files | files alone; with ` + "`--server` or `--profile`" + ` the server does the computing, and variables are ignored |
| database | a database that this host reaches; ` + "`--server` and `--profile`" + ` are exit code 2, and variables that name a server are ignored |
| agents | load agents, to which the flags for credentials belong; ` + "`--server` and `--profile`" + ` are exit code 2 |
| this host | programs and repositories of this host, without a database; ` + "`--server` and `--profile`" + ` are exit code 2 |
| neither | the program itself, and its configuration |

A command that changes something says ` + "`on NAME (URL)`" + ` if the server is on another host, and asks for consent if its
profile wants that. See [api.md](api.md#the-command-line-and-go-programs).

| command | works on | changes something | notes |
|---|---|---|---|
`

// proven are the commands of "both" and "files" that no line "both" of a script can run, with what proves
// them.
var proven = map[string]string{
	"doctor": "doctor.txt, overserver.txt: a server does not check the integrity of a file, which is a line of what is printed",
	"worker": "TestWorkersOverAServerAreKilled, worker.txt",
}

var bothLine = regexp.MustCompile(`(?m)^both \d+ (.*)$`)

// TestBothWays: a script runs each command of "both" and of "files" both ways.
func TestBothWays(t *testing.T) { // J4
	t.Parallel()
	ran := map[string]bool{}
	scripts, err := filepath.Glob("testdata/script/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range scripts {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range bothLine.FindAllStringSubmatch(string(text), -1) {
			if c, _, err := newTestRoot().Find(strings.Fields(line[1])); err == nil {
				ran[pathOf(c)] = true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		is := rows[path].reach == onBoth || rows[path].reach == onFiles
		switch {
		case is && !ran[path] && proven[path] == "":
			t.Errorf("no script runs pawl %s both ways", path)
		case !is && proven[path] != "" || ran[path] && proven[path] != "":
			t.Errorf("pawl %s needs no other proof", path)
		}
	}
}
