//go:build !unix || solaris || aix

package supervisor

import "os"

func lock(*os.File) error { return nil }

func syncFolder(string) error { return nil }
