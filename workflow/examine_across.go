package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
)

// alsoWorkflow checks the number of nodes, and removes what is empty.
func alsoWorkflow(e *examiner, _ string, _ *document.Value, m map[string]any) {
	steps, _ := m["steps"].([]any)
	hooks, _ := m["hooks"].(map[string]any)
	n := len(steps)
	for _, list := range hooks {
		n += len(list.([]any))
	}
	if n > pawl.MaxNodes {
		e.ReportAt("hooks", fmt.Sprintf("the workflow has %d steps and hooks; at most %d are allowed", n, pawl.MaxNodes), "")
	}
	if len(hooks) == 0 {
		delete(m, "hooks")
	}
}

func alsoHooks(_ *examiner, _ string, _ *document.Value, m map[string]any) { deleteEmpty(m) }

func alsoApproval(_ *examiner, _ string, _ *document.Value, m map[string]any) { deleteEmpty(m) }

// deleteEmpty removes empty lists and mappings, as Go does.
func deleteEmpty(m map[string]any) {
	for key, v := range m {
		list, isList := v.([]any)
		object, isObject := v.(map[string]any)
		if isList && len(list) == 0 || isObject && len(object) == 0 {
			delete(m, key)
		}
	}
}

// alsoInput checks pattern, default and enum of one input against its type.
func alsoInput(e *examiner, path string, v *document.Value, m map[string]any) {
	in := inputOf("", m)
	if in.Pattern != "" {
		e.inputPattern(path, &in)
	}
	fits := func(path string, v any) {
		if err := in.check(v); err != nil {
			e.ReportAt(path, err.Error(), "")
		}
	}
	if list, ok := m["enum"].([]any); ok {
		for i, choice := range list {
			typed := in
			typed.Enum = nil
			if err := typed.check(choice); err != nil {
				e.ReportAt(fmt.Sprintf("%s.enum[%d]", path, i), err.Error(), "")
			}
		}
	}
	if def, ok := m["default"]; ok {
		fits(path+".default", def)
		if m["required"] == true {
			e.ReportAt(path+".default", "a required input never uses its default", "leave one of the two out")
		}
	}
}

func (e *examiner) inputPattern(path string, in *Input) {
	if in.Type != TypeString {
		e.ReportAt(path+".pattern", fmt.Sprintf("only an input of type string has a pattern, this one is of type %s", in.Type), "")
		return
	}
	if _, err := regexp.Compile(in.Pattern); err != nil {
		e.ReportAt(path+".pattern", strings.TrimPrefix(err.Error(), "error parsing regexp: "), "patterns are regular expressions of RE2")
	}
}

// alsoStep checks that a step has one kind, and only keys of that kind.
func alsoStep(e *examiner, path string, v *document.Value, m map[string]any) {
	kinds, meant := kindsOf(v)
	switch len(kinds) {
	case 0:
		if meant {
			break
		}
		allowed := stepKinds
		if isHook(path) {
			allowed = hookWork
		}
		e.Report(v.Place, path, "the step does nothing", "give it one of "+strings.Join(allowed, ", "))
	case 1:
		e.companions(path, v, Kind(kinds[0]), m)
	default:
		e.Report(v.Place, path, fmt.Sprintf("a step is one of %s, and only one", strings.Join(kinds, " and ")), "make it several steps")
	}
	e.fanOut(path, v)
	for key, plain := range map[string]any{"queue": DefaultQueue, "priority": 0} {
		if m[key] == plain {
			delete(m, key)
		}
	}
	if inputs, _ := m["inputs"].(map[string]any); len(inputs) == 0 {
		delete(m, "inputs")
	}
}

// isHook reports whether path is that of a hook.
func isHook(path string) bool { return strings.HasPrefix(path, "hooks.") }

// fanOut checks the keys that say how often a step runs.
func (e *examiner) fanOut(path string, v *document.Value) {
	foreach, matrix := v.Find("foreach") != nil, v.Find("matrix") != nil
	if isHook(path) {
		return
	}
	if foreach && matrix {
		e.Report(e.Keys[path+".matrix"], path+".matrix", "a step has foreach or matrix, and not both", "")
	}
	if v.Find("parallel") != nil && !foreach && !matrix {
		e.Report(e.Keys[path+".parallel"], path+".parallel", "only a step with foreach or matrix has parallel", "")
	}
}

// kindsOf returns the keys of a step that say what it does; meant is true if another
// key is a misspelt one.
func kindsOf(v *document.Value) (kinds []string, meant bool) {
	for _, entry := range v.Entries {
		switch {
		case slices.Contains(stepKinds, entry.Key):
			kinds = append(kinds, entry.Key)
		default:
			meant = meant || document.Nearest(entry.Key, stepKinds) != ""
		}
	}
	return kinds, meant
}

// companions checks the keys that only some kinds have, and writes the default of a
// handler's output. The default of the others depends on which expressions use the
// output (outputs.go).
func (e *examiner) companions(path string, v *document.Value, kind Kind, m map[string]any) {
	process := kind == KindCommand || kind == KindRun
	only := func(key string, allowed bool, hint string) {
		if v.Find(key) != nil && !allowed {
			e.Report(e.Keys[document.JoinPath(path, key)], document.JoinPath(path, key), fmt.Sprintf("a step with %s has no %s", kind, key), hint)
		}
	}
	only("env", process, "it belongs to command and run")
	only("dir", process || kind == KindCrew || kind == KindLoad, "it belongs to command, run, crew and load")
	only("with", kind == KindHandler, "it belongs to handler")
	if !isHook(path) {
		only("inputs", kind == KindWorkflow, "they belong to workflow")
	}
	if kind.Waits() {
		only("timeout", false, ownLimit[kind])
		for _, key := range []string{"retry", "output", "queue", "priority", "queue_timeout", "isolation"} {
			only(key, false, "it belongs to "+strings.Join(workKinds, ", "))
		}
		delete(m, "retry")
		return
	}
	if m["isolation"] == string(IsolationRun) {
		delete(m, "isolation") // as if it was not written
	}
	retry, _ := m["retry"].(map[string]any)
	if codes, _ := retry["permanent_exit_codes"].([]any); len(codes) > 0 && !process {
		e.ReportAt(path+".retry.permanent_exit_codes", fmt.Sprintf("a step with %s has no exit code", kind), "")
	}
	e.outputMode(path, kind, m)
	e.script(path, m)
	e.handlerName(path, m)
	if c := v.Find("command"); c != nil && len(c.Items) > 0 && c.Items[0].Kind == document.Text && c.Items[0].Text == "" {
		e.Report(c.Items[0].Place, path+".command[0]", "the program has no name", "")
	}
}

// ownLimit says what the kinds that wait have instead of a timeout.
var ownLimit = map[Kind]string{
	KindApproval: "it has expires, inside approval",
	KindSleep:    "it ends by itself",
	KindEvent:    "write it inside event",
	KindWorkflow: "the child workflow has its own",
}

var outputOf = map[Kind]string{KindHandler: "handler", KindCrew: "step with crew", KindLoad: "step with load"}

func (e *examiner) outputMode(path string, kind Kind, m map[string]any) {
	if m["output"] == "" {
		delete(m, "output") // as if it was not written
	}
	if m["output"] == nil && kind.Encodes() {
		m["output"] = string(OutputJSON)
	}
	if mode := m["output"]; kind.Encodes() && mode != string(OutputJSON) && mode != string(OutputNone) {
		e.ReportAt(path+".output", fmt.Sprintf("the output of a %s is JSON; %q is not possible", outputOf[kind], mode), "use json or none")
	}
}

// script refuses expressions inside scripts: their values would be executed.
func (e *examiner) script(path string, m map[string]any) {
	text, _ := m["run"].(string)
	if !hasExpression(text) {
		return
	}
	at := e.expressionPlace(path+".run", piece{expression: true}, 0)
	e.Report(at, path+".run", "expressions are not allowed inside a script", `pass the value through env, as in env: {NAME: "${{ inputs.name }}"}, and use "$NAME"`)
}

func (e *examiner) handlerName(path string, m map[string]any) {
	if name, _ := m["handler"].(string); slices.Contains(reservedHandlers, name) {
		e.ReportAt(path+".handler", fmt.Sprintf("the name %q is reserved", name), "")
	}
}

// alsoRetry checks base against cap and sorts the exit codes.
func alsoRetry(e *examiner, path string, v *document.Value, m map[string]any) {
	base, _ := time.ParseDuration(fmt.Sprint(m["base"]))
	longest, _ := time.ParseDuration(fmt.Sprint(m["cap"]))
	if base > longest && m["base"] != nil && m["cap"] != nil {
		if v.Find("cap") == nil {
			m["cap"] = m["base"]
		} else {
			e.ReportAt(path+".base", fmt.Sprintf("base %s is longer than cap %s", base, longest), "")
		}
	}
	m["permanent_exit_codes"] = sortedInts(m["permanent_exit_codes"])
}

// alsoHTTP checks the address, as far as it is known, and sorts the statuses.
func alsoHTTP(e *examiner, path string, v *document.Value, m map[string]any) {
	if url, _ := m["url"].(string); url != "" {
		if err := checkURL(url, true); err != nil {
			e.ReportAt(path+".url", err.Error(), "")
		}
	}
	m["expect"] = sortedInts(m["expect"])
}

// alsoLoad refuses what only agents that are started for a load have, if others are named.
func alsoLoad(e *examiner, path string, _ *document.Value, m map[string]any) {
	if m["agents"] == nil {
		return
	}
	for _, key := range []string{"local", "root"} {
		if m[key] != nil {
			e.ReportAt(path+"."+key, fmt.Sprintf("a load with agents has no %s", key), "it is of agents that are started for the load")
		}
	}
}

// sortedInts returns a list of numbers ascending, each once.
func sortedInts(list any) []any {
	var ints []int
	elements, _ := list.([]any)
	for _, v := range elements {
		if i, ok := v.(int); ok {
			ints = append(ints, i)
		}
	}
	sort.Ints(ints)
	out := []any{}
	for _, i := range slices.Compact(ints) {
		out = append(out, i)
	}
	return out
}

// checkURL checks an address. If open is set, it may contain expressions.
func checkURL(url string, open bool) error {
	if open && strings.HasPrefix(url, "${{") {
		return nil
	}
	rest, ok := strings.CutPrefix(url, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(url, "http://")
	}
	host, _, _ := strings.Cut(rest, "/")
	if !ok || host == "" || strings.HasPrefix(host, ":") || strings.HasPrefix(host, "?") || strings.HasPrefix(host, "#") {
		return fmt.Errorf("%q is not an address: want http:// or https://, and a host", document.Shorten(url))
	}
	if open && hasExpression(url) {
		return nil
	}
	if i := strings.IndexFunc(url, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("%q holds a space or a control character", document.Shorten(url))
	}
	return nil
}
