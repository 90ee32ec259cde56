package main

import (
	"encoding/json"
	"errors"
	"flag"
	"go/build"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A packageCount is the numbers of one package.
type packageCount struct {
	Package string `json:"package"`
	numbers
}

// numbers are what is counted. Lines is the sum of Code, Comment and Blank.
type numbers struct {
	Files    int `json:"files"`
	Lines    int `json:"lines"`
	Code     int `json:"code"`
	Comment  int `json:"comment"` // nothing but a comment
	Blank    int `json:"blank"`
	Funcs    int `json:"funcs"`
	Methods  int `json:"methods"`
	Types    int `json:"types"`
	Consts   int `json:"consts"`
	Vars     int `json:"vars"`
	Exported int `json:"exported"` // of all declarations
}

func (n *numbers) add(m numbers) {
	n.Files += m.Files
	n.Lines += m.Lines
	n.Code += m.Code
	n.Comment += m.Comment
	n.Blank += m.Blank
	n.Funcs += m.Funcs
	n.Methods += m.Methods
	n.Types += m.Types
	n.Consts += m.Consts
	n.Vars += m.Vars
	n.Exported += m.Exported
}

func (n numbers) declarations() int { return n.Funcs + n.Methods + n.Types + n.Consts + n.Vars }

// count prints the numbers of one package. With -pace it first waits that long,
// and does nothing else meanwhile: for demonstrations that need the time.
func count(c call) error {
	flags := flag.NewFlagSet("count", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	pace := flags.Duration("pace", 0, "an artificial delay")
	if err := flags.Parse(c.args); err != nil {
		return usage("count: %w", err)
	}
	c.args = flags.Args()
	args, err := exactly(c, "GOROOT", "PACKAGE")
	if err != nil {
		return err
	}
	time.Sleep(*pace)
	n, err := countPackage(args[0], args[1])
	if err != nil {
		return err
	}
	return json.NewEncoder(c.stdout).Encode(n)
}

// countPackage counts the files that make up a package on this machine; tests
// are not among them.
func countPackage(goroot, path string) (packageCount, error) {
	all := packageCount{Package: path}
	dir := filepath.Join(goroot, "src", filepath.FromSlash(path))
	p, err := build.ImportDir(dir, 0)
	if err == nil && len(sourcesOf(p)) == 0 {
		err = errors.New("there is nothing in it but tests")
	}
	if err != nil {
		return all, usage("package %q: %w", path, err)
	}
	for _, name := range sourcesOf(p) {
		file := filepath.Join(dir, name)
		src, err := os.ReadFile(file)
		if err != nil {
			return all, err
		}
		n, err := countFile(file, src)
		if err != nil {
			return all, usage("package %q: %w", path, err)
		}
		all.add(n)
	}
	return all, nil
}
