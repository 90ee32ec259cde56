package results

import (
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
)

// Names returns the names of agents, which are those of their folders in the result: of one that has not
// greeted yet that changes once it has.
func Names(agents []journal.AgentLine) []string {
	var names []string
	taken := map[string]bool{}
	for _, a := range agents {
		names = append(names, report.FolderOf(a.ID, a.Agent, taken))
	}
	return names
}

// indexOf returns the number of an agent of a run that has a journal.
func (f *Folder) indexOf(run, name string) (int, error) {
	agents, err := f.Agents(run)
	if err != nil {
		return 0, err
	}
	names := Names(agents)
	for i, n := range names {
		if n == name {
			return agents[i].Agent, nil
		}
	}
	return 0, noAgent(run, name, names)
}

// maxNamed is how many agents an error names.
const maxNamed = 20

func noAgent(run, name string, names []string) error {
	want := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		want += ", …"
	}
	return pawl.Errorf(pawl.Invalid, "agent %.50q: run %s has none of that name; want one of %s", name, run, want)
}
