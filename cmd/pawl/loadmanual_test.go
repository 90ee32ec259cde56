package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var loadName = regexp.MustCompile(`^# (\S+)\n`)

// TestLoadManual runs the session of docs/load.md as it is written there: a file is checked and
// planned, two agents of this machine run it twice, and the results are shown and compared (L5, L7).
func TestLoadManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/load.md")
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(manual), "\n## A session\n")
	session, _, _ = strings.Cut(session, "\n## What is measured\n")
	k := newKitchen(t)
	k.env = append(k.env, "XDG_STATE_HOME="+filepath.Join(k.dir, "state"))
	blocks := fences.FindAllStringSubmatch(session, -1)
	if len(blocks) < 4 {
		t.Fatalf("%d blocks in the session", len(blocks))
	}
	for _, block := range blocks {
		if block[1] == "console" {
			k.console(block[2])
			continue
		}
		name := loadName.FindStringSubmatch(block[2])
		if name == nil {
			t.Fatalf("the first line does not name a file:\n%s", block[2])
		}
		if err := os.WriteFile(filepath.Join(k.dir, name[1]), []byte(block[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.pages()
}

// pages checks what the session has left: the page, and files for other programs.
func (k *kitchen) pages() {
	k.Helper()
	for name, want := range map[string]string{
		"before.html": "<svg", "before/operations.tsv": "read\tall\t", "before/intervals.tsv": "\ttrue\tlocal-1\tall\t",
		"before/latencies/read.response.hgrm": "#[Max", "before/agents/local-2/transitions.ndjson": `"to":"COMPLETED"`, "before/summary.json": `"partial": false`,
	} {
		text, err := os.ReadFile(filepath.Join(k.dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			k.Errorf("%s lacks %q: %v", name, want, err)
		}
	}
}
