package process

import (
	"bytes"
	"iter"
	"os"
	"strconv"
)

// A stat is what /proc tells of a process.
type stat struct {
	pid, parent, group int
	state              byte
	born               string // in clock ticks since the machine's start
}

// stats goes through the processes that this one can see.
func stats() iter.Seq[stat] {
	return func(yield func(stat) bool) {
		for pid := range pids() {
			s, ok := statOf(pid)
			if ok && !yield(s) {
				return
			}
		}
	}
}

// pids goes through the numbers of all processes, in chunks, as there may be many.
func pids() iter.Seq[int] {
	return func(yield func(int) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(256)
			for _, name := range names {
				pid, notNumber := strconv.Atoi(name)
				if notNumber == nil && !yield(pid) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

// statOf answers false if there is no such process.
func statOf(pid int) (stat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(text, ')') // the name of the program may hold anything
	if err != nil || end < 0 {
		return stat{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	group, _ := strconv.Atoi(string(fields[2]))
	return stat{pid, parent, group, fields[0][0], string(fields[19])}, true
}
