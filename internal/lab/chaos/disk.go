package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// A disk is a small filesystem in memory that can be filled up.
type disk struct {
	dir     string
	mounted bool
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes what is free.
func (d *disk) fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// free gives it back.
func (d *disk) free() error { return os.Remove(d.ballast()) }
