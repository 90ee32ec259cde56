package main

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// list prints the packages of a Go tree, sorted.
func list(c call) error {
	args, err := exactly(c, "GOROOT")
	if err != nil {
		return err
	}
	packages, err := packagesOf(args[0])
	for _, p := range packages {
		fmt.Fprintln(c.stdout, p)
	}
	return err
}

// packagesOf returns the import paths of the packages below goroot/src that
// this machine can build: without commands, vendored and internal packages.
func packagesOf(goroot string) ([]string, error) {
	src := filepath.Join(goroot, "src")
	var packages []string
	err := filepath.WalkDir(src, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || dir == src {
			return err
		}
		path, err := filepath.Rel(src, dir)
		if err != nil {
			return err
		}
		if passedOver(path) {
			return fs.SkipDir
		}
		ok, err := buildable(dir)
		if ok {
			packages = append(packages, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		return nil, usage("list the packages of %q: %w", goroot, err)
	}
	if len(packages) == 0 {
		return nil, usage("there are no packages below %s", src)
	}
	slices.Sort(packages)
	return packages, nil
}

// passedOver reports whether a folder, and all below it, is left out.
func passedOver(path string) bool {
	name := filepath.Base(path)
	return path == "cmd" || path == "builtin" || // the latter is documentation
		slices.Contains([]string{"internal", "vendor", "testdata"}, name) || strings.ContainsAny(name[:1], "._")
}

// buildable reports whether dir holds a package for this machine, and not only
// tests or a program.
func buildable(dir string) (bool, error) {
	p, err := build.ImportDir(dir, 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return false, nil
	}
	return err == nil && p.Name != "main" && len(sourcesOf(p)) > 0, err
}

// sourcesOf returns the files that make up a package on this machine, without
// its tests.
func sourcesOf(p *build.Package) []string { return slices.Concat(p.GoFiles, p.CgoFiles) }
