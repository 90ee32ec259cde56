// Package age reads and writes for how long something is kept: a duration in Go's notation,
// or in days, such as 30d. An [Age] is the value of a flag.
package age

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/engine"
)

// An Age is at least engine.MinRetention and at most a century. The zero value is none.
type Age time.Duration

const (
	day     = 24 * time.Hour
	longest = 36525 * day // what is older than a century would be before any job
)

// Set reads an age.
func (g *Age) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(min(n, 1e6) * float64(day))
	}
	if err == nil && !(d >= engine.MinRetention && d <= longest) {
		err = strconv.ErrRange
	}
	if err == nil {
		*g = Age(d)
	}
	return err
}

// String writes whole days as days.
func (g *Age) String() string {
	d := time.Duration(*g)
	if d%day == 0 && d > 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := strings.TrimSuffix(d.String(), "0s")
	if h, ok := strings.CutSuffix(s, "h0m"); ok {
		return h + "h"
	}
	return s
}

// Type is the name of the type of a flag.
func (*Age) Type() string { return "age" }
