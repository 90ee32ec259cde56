package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/workflow"
)

// TestEachStartsThePrograms: xargs and make start the program once for each item and each target,
// in every round; pawl is told to run a valid workflow, on a new database in each.
func TestEachStartsThePrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := filepath.Join(dir, "log")
	pawl := script("pawl", `echo "pawl $*" >> `+log)
	program := script("program", `echo "$1" >> `+log)
	c, err := commands(dir, pawl, program, 5, 2)
	if err != nil {
		t.Fatal(err)
	}
	c.Rounds = 2
	c.Progress = func(string, int, string, string) {}
	o, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Turns) != 6 || o.Turns[1].Jobs != 5 || o.Turns[1].JobRate <= 0 {
		t.Errorf("%+v", o.Turns)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(strings.Lines(string(text)))
	var want []string
	for _, arg := range []string{"0", "1", "2", "3", "4"} {
		want = append(want, arg+"\n", arg+"\n", "t"+arg+"\n", "t"+arg+"\n")
	}
	for _, db := range []string{"1.db", "2.db"} {
		want = append(want, "pawl run commands.yaml --inputs @items.json --workers 2 -o quiet --database "+db+"\n")
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("started %q; want %q", got, want)
	}
	yaml, err := os.ReadFile(filepath.Join(dir, "commands.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workflow.Parse("commands.yaml", yaml); err != nil {
		t.Error(err)
	}
}

// TestAProgramThatFails is an error with what it says.
func TestAProgramThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := commands(dir, "/bin/ls", trueProgram, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.Rounds, c.Progress = 1, func(string, int, string, string) {}
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ls: ") {
		t.Errorf("%v, want what ls says", err)
	}
	if _, err := commands(dir, "/nowhere/pawl", trueProgram, 1, 1); err == nil || !strings.Contains(err.Error(), "-pawl") {
		t.Errorf("%v, want the flag named", err)
	}
}
