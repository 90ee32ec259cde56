package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/workflow"
)

// The top-level key of each kind of file: steps in a workflow, services in a service file.
var (
	stepsKey    = regexp.MustCompile(`(?m)^steps[ \t]*:`)
	servicesKey = regexp.MustCompile(`(?m)^services[ \t]*:`)
)

// ReadWorkflow reads and checks a workflow file, with the files of its child workflows.
func ReadWorkflow(path string) (*workflow.Definition, error) {
	src, err := Read(path, workflow.MaxSource)
	if err != nil {
		return nil, err
	}
	return parseWorkflow(path, src)
}

func parseWorkflow(path string, src []byte) (*workflow.Definition, error) {
	if len(src) > workflow.MaxSource {
		return nil, tooLong(path, workflow.MaxSource)
	}
	if servicesKey.Match(src) && !stepsKey.Match(src) {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: path + " is a service file, not a workflow", Hint: "keep them running with: pawl supervise " + console.Shell(path)}
	}
	return workflow.ParseWith(path, src, OpenChild)
}

// ReadPrograms reads the source of a service file, for [ParsePrograms].
func ReadPrograms(path string) ([]byte, error) { return Read(path, spec.MaxSource) }

// ParsePrograms checks a service file. Paths in it are relative to the folder of the file.
func ParsePrograms(path string, src []byte) (*spec.File, error) {
	if len(src) > spec.MaxSource {
		return nil, tooLong(path, spec.MaxSource)
	}
	if stepsKey.Match(src) && !servicesKey.Match(src) {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: path + " is a workflow, not a service file", Hint: "run it with: pawl run " + console.Shell(path)}
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := spec.Parse(full, src)
	var problems document.Problems
	if errors.As(err, &problems) {
		for i := range problems {
			problems[i].File = path // as the caller named it
		}
	}
	return f, err
}

func tooLong(path string, limit int) error {
	return pawl.Errorf(pawl.Invalid, "cannot read %s: it has more than %d bytes", path, limit)
}

// Check checks a file of either kind and describes its contents.
func Check(path string) (what string, err error) {
	src, err := Read(path, max(workflow.MaxSource, spec.MaxSource))
	if err != nil {
		return "", err
	}
	if servicesKey.Match(src) {
		f, err := ParsePrograms(path, src)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, %s", f.Name, console.Plural(int64(len(f.Programs)), "service")), nil
	}
	def, err := parseWorkflow(path, src)
	if err != nil {
		return "", err
	}
	return def.Name + ", " + def.HashString(), nil
}

// IsWorkflow reports whether a word names a workflow file rather than a registered workflow.
func IsWorkflow(word string) bool {
	if strings.HasSuffix(word, ".yaml") || strings.HasSuffix(word, ".yml") {
		return true
	}
	info, err := os.Stat(word)
	return err == nil && !info.IsDir()
}
