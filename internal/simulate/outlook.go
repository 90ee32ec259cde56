package simulate

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// An Outlook is how the jobs of several seeds ended.
type Outlook struct {
	Runs    int                      `json:"runs"`
	Seed    uint64                   `json:"seed"` // the first
	Ends    map[machine.State]int    `json:"ends"`
	Example map[machine.State]uint64 `json:"example"` // the first seed of each
	Median  pawl.Duration            `json:"median"`  // of the time that jobs took
	Longest pawl.Duration            `json:"longest"`
	Broken  []uint64                 `json:"broken"` // the seeds whose job could not end
}

// Many simulates runs jobs, with the seed of cfg and those after it; see Run.
func Many(ctx context.Context, def *workflow.Definition, cfg Config, runs int) (*Outlook, error) {
	o := &Outlook{Runs: runs, Seed: cfg.Seed, Ends: map[machine.State]int{}, Example: map[machine.State]uint64{}, Broken: []uint64{}}
	var took []pawl.Duration
	for i := range uint64(runs) {
		cfg.Seed = o.Seed + i
		result, err := Run(ctx, def, cfg)
		if err != nil {
			return nil, err
		}
		if result.Broken != "" {
			o.Broken = append(o.Broken, cfg.Seed)
		}
		if o.Ends[result.Status]++; o.Ends[result.Status] == 1 {
			o.Example[result.Status] = cfg.Seed
		}
		took = append(took, result.Took)
	}
	slices.Sort(took)
	o.Median, o.Longest = took[len(took)/2], took[len(took)-1]
	return o, nil
}
