package worker

import "fmt"

// A Floor is how much memory and disk has to be free for a worker to run steps (J9).
// What cannot be measured, as on systems other than Linux, counts as enough.
type Floor struct {
	Percent float64  // of the memory and of each folder's disk; 0: no limit
	Folders []string // whose disks need free space

	// Probe returns what is free. nil asks the system.
	Probe func(folders []string) []Room
}

// Room is how much of something is free.
type Room struct {
	Of          string // memory, or the folder
	Free, Whole uint64 // bytes
}

// Scarce returns what is below the floor, or "".
func (f Floor) Scarce() string {
	if f.Percent <= 0 {
		return ""
	}
	probe := f.Probe
	if probe == nil {
		probe = measure
	}
	for _, r := range probe(f.Folders) {
		if r.Whole == 0 {
			continue
		}
		if free := 100 * float64(r.Free) / float64(r.Whole); free < f.Percent {
			return fmt.Sprintf("%.1f %% of %s is free, which is less than %g %%", free, r.Of, f.Percent)
		}
	}
	return ""
}
