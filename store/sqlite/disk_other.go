//go:build !linux

package sqlite

import "github.com/pawl-dev/pawl/doctor"

// fileSystem is not known here.
func fileSystem(string) (string, doctor.Severity, error) { return "", doctor.OK, nil }

// freeSpace is not known here.
func freeSpace(string) (free int64, known bool, err error) { return 0, false, nil }
