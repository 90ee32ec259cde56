package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/engine"
)

// An age is a flag: a Go duration, or a number of days, 30d say.
type age time.Duration

// longestAge is a century: what is older would be before any job.
const longestAge = 36525 * 24 * time.Hour

func (g *age) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(min(n, 1e6) * float64(24*time.Hour))
	}
	if err == nil && !(d >= engine.MinRetention && d <= longestAge) {
		err = strconv.ErrRange
	}
	if err == nil {
		*g = age(d)
	}
	return err
}

func (g *age) String() string {
	d := time.Duration(*g)
	if d%(24*time.Hour) == 0 && d > 0 {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	s := strings.TrimSuffix(d.String(), "0s")
	if h, ok := strings.CutSuffix(s, "h0m"); ok {
		return h + "h"
	}
	return s
}

func (*age) Type() string { return "age" }

// bindRetention adds the flag --retention of a process that runs an engine, whose
// Config.Retention it is.
func bindRetention(c *cobra.Command, retention *age) {
	c.Flags().Var(retention, "retention", "remove jobs, with their trails and logs, so long after they have ended: 30d or 12h say, 1h or more; without it they are kept")
}
