package console

import (
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl/internal/simulate"
	"github.com/pawl-dev/pawl/lifecycle"
)

func Outlook(out, talk io.Writer, o *simulate.Outlook, json bool) error {
	if json {
		return JSON(out, o)
	}
	rows := [][]string{{"END", "JOBS", "FIRST SEED"}}
	for _, state := range lifecycle.Job.States {
		if n := o.Ends[state]; n > 0 {
			rows = append(rows, []string{string(state), fmt.Sprint(n), fmt.Sprint(o.Example[state])})
		}
	}
	if err := Table(out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "half of them took at most %s, and the longest %s\n", time.Duration(o.Median).Round(time.Second), time.Duration(o.Longest).Round(time.Second))
	for _, seed := range o.Broken {
		Say(talk, "error", fmt.Sprintf("the job of seed %d could not end", seed))
	}
	return err
}
