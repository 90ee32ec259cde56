package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// troubles is how many attempts of release fail.
const troubles = 2

// release prints which release of Go the tree is. It stands in for a service
// that is out of order for a while, so that there is something to try again: its
// first attempts fail on purpose, with an exit code that is worth another one.
// Pawl tells the number of the attempt in PAWL_ATTEMPT; without that, when
// called by hand, it works at once.
func release(c call) error {
	args, err := exactly(c, "GOROOT")
	if err != nil {
		return err
	}
	if text := c.env("PAWL_ATTEMPT"); text != "" {
		attempt, err := strconv.Atoi(text)
		if err != nil {
			return usage("PAWL_ATTEMPT: want a number, got %q", text)
		}
		if attempt <= troubles {
			return temporaryError{fmt.Errorf("made-up trouble: attempt %d of this step fails on purpose, attempt %d will not", attempt, troubles+1)}
		}
	}
	name, err := releaseOf(args[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, name)
	return err
}

// releaseOf returns the first line of the tree's VERSION file. A tree built from
// a checkout has none.
func releaseOf(goroot string) (string, error) {
	text, err := os.ReadFile(filepath.Join(goroot, "VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return "go (no release)", nil
	}
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line), nil
}
