package workload

import (
	"bufio"
	"bytes"
	"os"
)

// Listed returns how many files a manifest lists: those that were prepared, and a few at most that
// were not created any more. What operations have created or deleted is not among them.
func Listed(manifest string) (files uint64) {
	f, err := os.Open(manifest)
	if err != nil {
		return 0 // without a manifest nothing was created
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if bytes.HasPrefix(in.Bytes(), []byte("f ")) {
			files++
		}
	}
	return files
}
