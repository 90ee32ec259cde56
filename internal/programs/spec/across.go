package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// An across checks the services of a file against each other.
type across struct {
	e        *document.Examiner
	ids      []string // in the order of the file
	services map[string]any
	needs    map[string][]need // those that are valid
	seen     map[string]int    // by walk: 1 while the service is on the path, 2 when it is done
	circular map[string]bool   // on a cycle that was reported
}

// alsoFile fills in the name, and checks the services.
func alsoFile(e *document.Examiner, _ string, v *document.Value, m map[string]any) {
	ownNames(e, "env", m["env"])
	defaultName(e, v, m)
	list := v.Find("services")
	services, ok := m["services"].(map[string]any)
	if !ok || list == nil {
		return
	}
	a := across{e: e, services: services, needs: map[string][]need{}, seen: map[string]int{}, circular: map[string]bool{}}
	for _, entry := range list.Entries {
		a.ids = append(a.ids, entry.Key)
	}
	for _, id := range a.ids {
		a.checkNeeds(id)
	}
	for _, id := range a.ids {
		a.walk(id, nil)
	}
	a.checkLogs()
}

func defaultName(e *document.Examiner, v *document.Value, m map[string]any) {
	if v.Find("name") != nil {
		return
	}
	base := filepath.Base(e.File)
	m["name"] = strings.TrimSuffix(base, filepath.Ext(base))
	if _, fault := document.CheckText(m["name"].(string), nameShape); fault != nil {
		e.Report(v.Place, "", fmt.Sprintf(`"name" is missing, and the file's own (%q) cannot be it`, document.Shorten(base)), "add name: NAME")
	}
}

func (a *across) service(id string) map[string]any {
	m, _ := a.services[id].(map[string]any)
	return m
}

// checkNeeds checks each need of a service against the other services.
func (a *across) checkNeeds(id string) {
	all, _ := a.service(id)["needs"].([]need)
	for _, n := range all {
		_, known := a.services[n.ID]
		switch {
		case n.ID == id:
			a.e.ReportKey(n.path, fmt.Sprintf("service %q needs itself", id), "")
		case !known:
			a.e.ReportKey(n.path, fmt.Sprintf("there is no service %q", document.Shorten(n.ID)), a.e.Suggest(n.ID, a.ids))
		case slices.ContainsFunc(a.needs[id], func(b need) bool { return b.ID == n.ID }):
			a.e.ReportKey(n.path, fmt.Sprintf("the need %q appears twice", n.ID), "")
		case n.Condition == Completed && a.policy(n.ID) == string(Always):
			a.e.ReportAt(n.path, fmt.Sprintf("service %q never completes: it is always started again", n.ID), fmt.Sprintf("give %s restart: {policy: never} or on_failure", n.ID))
		default:
			a.needs[id] = append(a.needs[id], n)
		}
	}
}

func (a *across) policy(id string) any {
	restart, _ := a.service(id)["restart"].(map[string]any)
	return restart["policy"]
}

// walk follows the needs of a service; above is the path to it. A cycle is reported once,
// and one that shares a service with it is not.
func (a *across) walk(id string, above []string) {
	switch a.seen[id] {
	case 1:
		a.reportCircle(above[slices.Index(above, id):])
		return
	case 2:
		return
	}
	a.seen[id] = 1
	for _, n := range a.needs[id] {
		a.walk(n.ID, append(above, id))
	}
	a.seen[id] = 2
}

// reportCircle reports a cycle from its first service in the file: "a -> b -> a" says that
// a needs b.
func (a *across) reportCircle(circle []string) {
	for _, id := range circle {
		if a.circular[id] {
			return
		}
	}
	for _, id := range circle {
		a.circular[id] = true
	}
	first := slices.IndexFunc(a.ids, func(id string) bool { return a.circular[id] && slices.Contains(circle, id) })
	i := slices.Index(circle, a.ids[first])
	circle = slices.Concat(circle[i:], circle[:i], circle[i:i+1])
	at := slices.IndexFunc(a.needs[circle[0]], func(n need) bool { return n.ID == circle[1] })
	a.e.ReportKey(a.needs[circle[0]][at].path, "the needs form a cycle: "+strings.Join(circle, " -> "), "")
}

// checkLogs reports a log file that two services would write.
func (a *across) checkLogs() {
	owners := map[string]string{}
	for _, id := range a.ids {
		log, _ := a.service(id)["log"].(map[string]any)
		file, ok := log["file"].(string)
		if !ok {
			continue
		}
		file = within(a.e.File, file)
		if owner, taken := owners[file]; taken {
			a.e.ReportAt(document.JoinPath("services", id)+".log.file", fmt.Sprintf("service %q has the same log file", owner), "give each its own")
			continue
		}
		owners[file] = id
	}
}
