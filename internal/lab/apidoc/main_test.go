package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/api"
)

// J4: the committed documents are those of the table of operations.
func TestCommitted(t *testing.T) {
	t.Parallel()
	for name, part := range pages {
		page, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := generated(name, page, part())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(page)); diff != "" {
			t.Errorf("%s is not current: run make generate\n%s", name, diff)
		}
	}
	doc, err := api.Document()
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile("../../../" + document)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(written), doc) {
		t.Errorf("%s is not current: run make generate", document)
	}
}

func TestGeneratedNeedsTheMark(t *testing.T) {
	t.Parallel()
	if _, err := generated("a page", []byte("# A page\n"), ""); err == nil {
		t.Error("a page without the mark was accepted")
	}
}
