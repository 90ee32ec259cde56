package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// publish writes what draw returns to the file name in the folder that c names,
// and prints the file's path.
func publish(c call, name string, draw func(summary) []byte) error {
	args, err := exactly(c, "OUT")
	if err != nil {
		return err
	}
	s, err := readSummary(c)
	if err != nil {
		return err
	}
	path := filepath.Join(args[0], name)
	if err := replace(path, draw(s)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, path)
	return err
}

// replace makes content the file at path in one go: whoever reads it sees the
// old content or the new, and whoever dies on the way leaves the old.
func replace(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// grouped writes n with a comma at every third digit. n is not negative.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(part, whole int) string {
	if whole == 0 {
		return "0 %"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + " %"
}
