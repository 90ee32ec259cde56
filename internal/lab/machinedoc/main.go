// Command machinedoc writes docs/machines: a page for each machine of package
// lifecycle and an index (K2). Run it from the root of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/lifecycle"
)

// folder is the folder of the pages, relative to the root of the module.
const folder = "docs/machines"

func main() {
	if err := write(folder, pages(lifecycle.All())); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// write replaces the pages in dir, and removes pages without a machine.
func write(dir string, pages map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if _, ok := pages[filepath.Base(path)]; !ok {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
