package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// outside are the variables of the program of a member, and of whoever runs the tests.
var outside = []string{"PAWL_WORKER=", "PAWL_EPOCH=", "PAWL_TASK=", "PAWL_CREW=", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"}

var scriptName = regexp.MustCompile(`^#!/bin/sh\n# (\S+)\n`)

// TestCrewManual runs the session of docs/crew.md as it is written there: two scripts work at
// once, on tasks that conflict and on others, until all of it has landed (C7, C10, C11).
func TestCrewManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/crew.md")
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(manual), "\n## A session\n")
	session, _, _ = strings.Cut(session, "\n## The life of a task\n")
	k := newKitchen(t)
	k.dir = filepath.Join(k.dir, "shop")
	if err := os.Mkdir(k.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	k.env = append(append(k.env, "XDG_STATE_HOME="+filepath.Join(k.dir, "..", "state")), outside...)
	blocks := fences.FindAllStringSubmatch(session, -1)
	if len(blocks) < 7 {
		t.Fatalf("%d blocks in the session", len(blocks))
	}
	for _, block := range blocks {
		if block[1] == "console" {
			k.console(block[2])
			continue
		}
		name := scriptName.FindStringSubmatch(block[2])
		if name == nil {
			t.Fatalf("the second line does not name a script:\n%s", block[2])
		}
		if err := os.WriteFile(filepath.Join(k.dir, name[1]), []byte(block[2]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
