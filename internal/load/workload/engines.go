package workload

import "github.com/pawl-dev/pawl/internal/load/spec"

// Engines returns the engines that work here.
func Engines() []string {
	all := []string{string(spec.Threads), string(spec.S3), string(spec.Null)}
	if checkRing() == nil {
		all = append(all, string(spec.Uring))
	}
	return all
}
