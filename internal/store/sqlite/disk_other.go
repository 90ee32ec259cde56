//go:build !linux

package sqlite

import "github.com/pawl-dev/pawl/internal/health"

// fileSystem is not known here.
func fileSystem(string) (string, health.Severity, error) { return "", health.OK, nil }

// freeSpace is not known here.
func freeSpace(string) (free int64, known bool, err error) { return 0, false, nil }
