package main

import "time"

// A usage is the resource usage of a process.
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
