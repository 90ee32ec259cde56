package main

import "time"

// A usage is what a process needs.
type usage struct {
	cpu            time.Duration
	threads, files int
	memory         int64 // resident, in bytes
}

func (u *usage) add(o usage) {
	u.cpu += o.cpu
	u.threads += o.threads
	u.files += o.files
	u.memory += o.memory
}
