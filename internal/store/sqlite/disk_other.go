//go:build !linux

package sqlite

import "github.com/pawl-dev/pawl/internal/health"

// fileSystem returns nothing on this platform.
func fileSystem(string) (string, health.Severity, error) { return "", health.OK, nil }

// freeSpace returns nothing on this platform.
func freeSpace(string) (free int64, known bool, err error) { return 0, false, nil }
