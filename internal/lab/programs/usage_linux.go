package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is the number of time units of /proc in a second.
const ticks = 100

func look(pid int) (u usage, err error) {
	folder := fmt.Sprintf("/proc/%d/", pid)
	text, err := os.ReadFile(folder + "stat")
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, i := range []int{11, 12} { // user, system
		n, _ := strconv.Atoi(fields[i])
		u.cpu += time.Duration(n) * time.Second / ticks
	}
	u.threads, _ = strconv.Atoi(fields[17])
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	u.memory = pages * int64(os.Getpagesize())
	files, err := os.ReadDir(folder + "fd")
	u.files = len(files)
	return u, err
}
