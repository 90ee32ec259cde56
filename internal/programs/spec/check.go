package spec

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// alsoService checks that a service has one program, and that it sets no variable of
// Pawl's.
func alsoService(e *document.Examiner, path string, v *document.Value, m map[string]any) {
	exactlyOne(e, path, v, workKeys, "the service runs nothing")
	if c := v.Find("command"); c != nil {
		named(e, document.JoinPath(path, "command"), c)
	}
	ownNames(e, document.JoinPath(path, "env"), m["env"])
}

// exactlyOne checks that an object has one of the keys. A misspelt key has been
// reported already.
func exactlyOne(e *document.Examiner, path string, v *document.Value, keys []string, none string) (kind string) {
	var found []string
	meant := false
	for _, entry := range v.Entries {
		switch {
		case slices.Contains(keys, entry.Key):
			found = append(found, entry.Key)
		default:
			meant = meant || document.Nearest(entry.Key, keys) != ""
		}
	}
	switch {
	case len(found) == 1:
		return found[0]
	case len(found) > 1:
		e.Report(v.Place, path, fmt.Sprintf("%s exclude each other", strings.Join(found, " and ")), "keep one of them")
	case !meant:
		e.Report(v.Place, path, none, "give it one of "+strings.Join(keys, ", "))
	}
	return ""
}

// named reports a command whose program has no name.
func named(e *document.Examiner, path string, c *document.Value) {
	if len(c.Items) > 0 && c.Items[0].Kind == document.Text && c.Items[0].Text == "" {
		e.Report(c.Items[0].Place, path+"[0]", "the program has no name", "")
	}
}

// ownNames reports variables of an environment that only Pawl may set.
func ownNames(e *document.Examiner, path string, env any) {
	variables, _ := env.(map[string]any)
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"} {
		if _, given := variables[name]; given {
			e.ReportKey(document.JoinPath(path, name), name+" is set by Pawl", "see notify in docs/supervise.md")
		}
	}
}

// A probing is a probe that is checked.
type probing struct {
	e    *document.Examiner
	path string
	v    *document.Value
	m    map[string]any
}

// alsoReady checks a probe of readiness.
func alsoReady(e *document.Examiner, path string, v *document.Value, m map[string]any) {
	p := probing{e, path, v, m}
	kind := exactlyOne(e, path, v, probeKinds, "the probe asks nothing")
	p.check()
	if kind == "log" || kind == "notify" {
		p.without(kind, []string{"interval", "timeout", "successes", "failures"}, "the timeout of start limits how long it may take")
	}
}

// alsoAlive checks a probe of being alive.
func alsoAlive(e *document.Examiner, path string, v *document.Value, m map[string]any) {
	if v.Find("log") != nil {
		return // which has been reported
	}
	p := probing{e, path, v, m}
	kind := exactlyOne(e, path, v, aliveKinds, "the probe asks nothing")
	p.check()
	if kind != "notify" {
		return
	}
	p.without(kind, []string{"interval", "failures"}, "timeout is the longest silence")
	m["failures"] = 1
	if v.Find("timeout") == nil {
		m["timeout"] = silence
	}
}

// silence is the default of the longest silence of a program that reports that it is
// alive.
const silence = "30s"

// without reports keys that have no meaning for a kind of probe.
func (p probing) without(kind string, keys []string, hint string) {
	for _, key := range keys {
		if p.v.Find(key) != nil {
			p.e.ReportKey(document.JoinPath(p.path, key), fmt.Sprintf("a probe with %s has no %s", kind, key), hint)
		}
	}
}

// report reports a problem with the value of a key.
func (p probing) report(key, message, hint string) {
	p.e.ReportAt(document.JoinPath(p.path, key), message, hint)
}

// check checks the keys that say how the probe works.
func (p probing) check() {
	if c := p.v.Find("command"); c != nil {
		named(p.e, document.JoinPath(p.path, "command"), c)
	}
	if address, ok := p.m["http"].(string); ok {
		if j := judgeURL(address); j != nil {
			p.report("http", j.Message, j.Hint)
		}
	}
	if pattern, ok := p.m["log"].(string); ok {
		if _, err := regexp.Compile(pattern); err != nil {
			p.report("log", strings.TrimPrefix(err.Error(), "error parsing regexp: "), "patterns are regular expressions of RE2")
		}
	}
	if p.m["notify"] == false {
		p.report("notify", "notify is true, or not there", "leave the probe out if the program does not notify")
	}
}

func judgeURL(address string) *document.Judgement {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && (u.Port() == "" || isPort(u.Port())) {
		return nil
	}
	j := document.Refused("%q is not an address: want http:// or https://, and a host", document.Shorten(address))
	if !strings.Contains(address, "://") {
		j.Hint = fmt.Sprintf("write http://%s", document.Shorten(address))
	}
	return j
}

// alsoRestart checks base against cap, and sorts the exit codes.
func alsoRestart(e *document.Examiner, path string, v *document.Value, m map[string]any) {
	base, longest := duration(m, "base"), duration(m, "cap")
	if base > longest && m["cap"] != nil {
		if v.Find("cap") == nil {
			m["cap"] = m["base"]
		} else {
			e.ReportAt(document.JoinPath(path, "base"), fmt.Sprintf("base %s is longer than cap %s", base, longest), "")
		}
	}
}
