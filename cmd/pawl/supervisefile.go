package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// parsePrograms checks what the file at path says, which means its own folder.
func parsePrograms(path string, src []byte) (*spec.File, error) {
	if len(src) > spec.MaxSource {
		return nil, pawl.Errorf(pawl.Invalid, "cannot read %s: it has more than %d bytes", path, spec.MaxSource)
	}
	if stepsKey.Match(src) && !servicesKey.Match(src) {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: path + " is a workflow, and no file of services", Hint: "run it with: pawl run " + console.Shell(path)}
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := spec.Parse(full, src)
	var problems document.Problems
	if errors.As(err, &problems) {
		for i := range problems {
			problems[i].File = path // as it was called
		}
	}
	return f, err
}

// servicesKey is in a file of services, and in no workflow.
var servicesKey = regexp.MustCompile(`(?m)^services[ \t]*:`)

// stepsKey is in a workflow, and in no file of services.
var stepsKey = regexp.MustCompile(`(?m)^steps[ \t]*:`)

// A digest is the hash of what a file holds, or of why it cannot be read.
type digest = [sha256.Size]byte

// look reads the file.
func (s *supervision) look() ([]byte, digest, error) {
	src, err := readFile(s.path, spec.MaxSource)
	if err != nil {
		return nil, sha256.Sum256([]byte("error: " + err.Error())), err
	}
	return src, sha256.Sum256(src), nil
}

// load reads the file anew, for the keeper.
func (s *supervision) load() (*spec.File, error) {
	src, sum, err := s.look()
	s.mu.Lock()
	s.read = sum
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := parsePrograms(s.path, src)
	if err == nil {
		f.Name = cmp.Or(s.name, f.Name) // once it has one, others know it by that
	}
	return f, err
}

// Reload is the keeper's, and says what comes of it.
func (s *supervision) Reload(ctx context.Context, c pawl.Change) ([]control.Difference, error) {
	differences, err := s.Manager.Reload(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.app.logs
	switch {
	case err != nil && ctx.Err() != nil: // everything stops
	case err != nil:
		complain(out, err)
		fmt.Fprintf(out, "%s was not applied; everything stays as it is\n", s.path)
	case len(differences) == 0 && s.refused:
		fmt.Fprintf(out, "%s is as it was before\n", s.path)
	}
	s.refused = err != nil
	for _, d := range differences {
		fmt.Fprintln(out, d)
	}
	return differences, err
}

// lookAtFile is how long the file is not looked at.
const lookAtFile = time.Second

// watch reloads the file when it has changed. It has to be the same twice: an editor
// may not have written all of it the first time.
func (s *supervision) watch(ctx context.Context) {
	last := s.known()
	for inspect.Rest(ctx, lookAtFile) {
		_, now, _ := s.look()
		if now == last && now != s.known() {
			_, _ = s.Reload(ctx, pawl.Change{Actor: "watch", Reason: filepath.Base(s.path) + " has changed"}) // it has told of its error
		}
		last = now
	}
}

// known is the file as it was read last.
func (s *supervision) known() digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}
