package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/workflow"
)

// readWorkflow reads and checks a workflow file.
func readWorkflow(path string) (*workflow.Definition, error) {
	src, err := readFile(path, workflow.MaxSource)
	if err != nil {
		return nil, err
	}
	return parseWorkflow(path, src)
}

// parseWorkflow checks a workflow file.
func parseWorkflow(path string, src []byte) (*workflow.Definition, error) {
	if len(src) > workflow.MaxSource {
		return nil, pawl.Errorf(pawl.Invalid, "cannot read %s: it has more than %d bytes", path, workflow.MaxSource)
	}
	if servicesKey.Match(src) && !stepsKey.Match(src) {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: path + " is a file of services, and no workflow", Hint: "keep them running with: pawl supervise " + console.Shell(path)}
	}
	return workflow.ParseWith(path, src, openChild)
}

// openChild reads the file of a child workflow: by its path from the folder of the
// parent's file, or by an absolute one. Whoever wrote the parent named it, so that a pipe is refused: it
// could be waited for for ever.
func openChild(from, path string) (string, []byte, error) {
	known := path
	if !filepath.IsAbs(path) {
		known = filepath.Join(filepath.Dir(from), path)
	}
	if info, err := os.Stat(known); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return known, nil, pawl.Errorf(pawl.Invalid, "cannot read %s: it is not a regular file", console.Shell(known))
	}
	src, err := readFile(known, workflow.MaxSource)
	return known, src, err
}

// readFile reads a file of at most limit bytes. One byte more is read, so that
// whoever has the same limit refuses it.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fileError(path, err)
	}
	return b, nil
}

// openFile opens a file to be read. What is no regular file is refused before it is opened,
// as a pipe without a writer could be waited for forever; but for what the caller has open
// already, as <(...) and /dev/stdin are, and for /dev/null.
func openFile(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !isOpen(path) {
		return nil, pawl.Errorf(pawl.Invalid, "cannot read %s: it is %s, and not a regular file", console.Shell(path), sort(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	return f, nil
}

// isOpen reports whether reading a path waits for nobody but the caller.
func isOpen(path string) bool {
	return path == "/dev/stdin" || path == os.DevNull || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// sort says what sort of file it is that is no regular one.
func sort(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "something else"
}

func fileError(path string, err error) error {
	var detail *fs.PathError
	if errors.As(err, &detail) {
		err = detail.Err
	}
	return pawl.Errorf(kindOfFile(err), "cannot read %s: %v", console.Shell(path), err)
}

// kindOfFile returns what kind of error it is that a file cannot be had.
func kindOfFile(err error) pawl.Kind {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pawl.NotFound
	case errors.Is(err, fs.ErrPermission):
		return pawl.Refused
	}
	return pawl.Invalid
}

// An inputFlags holds what the command line says of a job's inputs.
type inputFlags struct {
	pairs []string // key=value, by the type of the input
	whole string   // JSON, or @ and the name of a file of it
}

func (in *inputFlags) bind(c *cobra.Command) {
	c.Flags().StringArrayVarP(&in.pairs, "input", "i", nil, "an input, as key=value; may be repeated")
	c.Flags().StringVar(&in.whole, "inputs", "", "all inputs as a JSON object, or @FILE of one; -i wins over it")
}

func (in *inputFlags) given() bool { return len(in.pairs) > 0 || in.whole != "" }

// maxInputFile bounds the file that --inputs names, in bytes.
const maxInputFile = 1 << 20

// of returns the inputs as the definition binds them.
func (in *inputFlags) of(def *workflow.Definition) (json.RawMessage, error) {
	given, err := in.object()
	if err != nil {
		return nil, err
	}
	pairs, err := in.values(def)
	if err != nil {
		return nil, err
	}
	maps.Copy(given, pairs)
	return def.BindInputs(given)
}

// values reads the values of -i, each by the type of its input.
func (in *inputFlags) values(def *workflow.Definition) (map[string]any, error) {
	return valuesOf("--input", "write -i day=2026-01-31", in.pairs, def.ParseInput)
}

func (in *inputFlags) object() (map[string]any, error) {
	given := map[string]any{}
	if in.whole == "" {
		return given, nil
	}
	text := []byte(in.whole)
	if path, ok := strings.CutPrefix(in.whole, "@"); ok {
		b, err := readFile(path, maxInputFile)
		if err != nil {
			return nil, err
		}
		if len(b) > maxInputFile {
			return nil, usage("", "--inputs: %s has more than %d bytes", path, maxInputFile)
		}
		text = b
	}
	if !utf8.Valid(text) {
		return nil, usage("", "--inputs: want text in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&given); err != nil || given == nil || d.More() {
		return nil, usage(`write --inputs '{"day": "2026-01-31"}' or --inputs @FILE`, "--inputs: want one JSON object")
	}
	return given, nil
}

// folderOf returns the absolute folder of a workflow file: where its commands
// start.
func folderOf(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the folder of %s: %w", path, err)
	}
	return textual(filepath.Dir(abs))
}

// textual refuses a folder that could not be stored as it is.
func textual(dir string) (string, error) {
	if !utf8.ValidString(dir) {
		return "", pawl.Errorf(pawl.Invalid, "the name of the folder %q is not text in UTF-8", dir)
	}
	return dir, nil
}
