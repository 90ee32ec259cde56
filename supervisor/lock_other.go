//go:build !unix || solaris || aix

package supervisor

import "os"

func lock(*os.File) error { return nil }

func unlockAndClose(file *os.File) error { return file.Close() }

func syncFolder(string) error { return nil }
