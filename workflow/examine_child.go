package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// A family is what the files of one workflow and of its children share while
// they are read.
type family struct {
	root  *document.Shape // of a workflow
	open  Open            // nil: no files
	files map[string]*Definition
}

// within returns the examiner of a child's file, or of a definition inside of
// this one.
func (e *examiner) within(file, source string) *examiner {
	return makeExaminer(file, source, e.family, e.chain)
}

// child examines the reference to a child workflow, however it is written.
func (e *examiner) child(path string, v *document.Value, s *document.Shape) (any, *document.Judgement) {
	switch v.Kind {
	case document.Text:
		m, fault := childOf(v.Text)
		if fault != nil {
			return nil, fault
		}
		return e.completed(path, m)
	case document.Object:
		before := len(e.Problems)
		m, _ := e.Object(path, v, s)
		if len(e.Problems) > before || e.refused {
			return nil, &document.Judgement{}
		}
		return e.completed(path, m.(map[string]any))
	}
	return nil, document.WrongKind("the name of a workflow", v)
}

// childOf reads NAME, NAME@VERSION or the path of a file.
func childOf(text string) (map[string]any, *document.Judgement) {
	const forms = "write NAME, NAME@VERSION, or a path that ends in .yaml or .yml"
	if hasExpression(text) {
		return nil, document.Refused("the child workflow is known before the job starts: expressions are not allowed inside its name")
	}
	if strings.HasSuffix(text, ".yaml") || strings.HasSuffix(text, ".yml") {
		if _, fault := document.CheckText(text, fileShape); fault != nil {
			return nil, fault
		}
		return map[string]any{"file": text}, nil
	}
	name, number, versioned := strings.Cut(text, "@")
	if _, fault := document.CheckText(name, nameShape); fault != nil {
		return nil, &document.Judgement{Message: fmt.Sprintf("%q is not the name of a workflow", document.Shorten(text)), Hint: forms}
	}
	m := map[string]any{"name": name}
	if versioned {
		version, err := strconv.Atoi(number)
		if err != nil || strconv.Itoa(version) != number || version < 1 || version > MaxVersion {
			return nil, &document.Judgement{Message: fmt.Sprintf("%q is not a version: a number from 1 to %d", document.Shorten(number), MaxVersion), Hint: forms}
		}
		m["version"] = version
	}
	return m, nil
}

// completed checks what the parts of a reference mean together, and adds the
// definition of a file.
func (e *examiner) completed(path string, m map[string]any) (any, *document.Judgement) {
	file, isFile := m["file"].(string)
	_, known := m["definition"]
	switch {
	case m["name"] != nil && (isFile || known):
		return nil, document.Refused("a child workflow has a name or a file, and not both")
	case m["name"] != nil || known && m["version"] == nil:
		return m, nil
	case m["version"] != nil:
		return nil, document.Refused("only a registered workflow has a version")
	case !isFile:
		return nil, document.Refused("a child workflow has a name or a file")
	}
	d, fault := e.opened(file)
	if d == nil {
		return nil, fault
	}
	if fault := e.adopt(path+".definition", d); fault != nil {
		return nil, fault
	}
	m["definition"] = json.RawMessage(d.canonical)
	return m, nil
}

// opened returns the workflow of a file. Its own problems are added to those of the
// whole; the judgement is about the reference to it.
func (e *examiner) opened(file string) (*Definition, *document.Judgement) {
	if e.family.open == nil {
		return nil, &document.Judgement{Message: fmt.Sprintf("the file %s of a child workflow cannot be opened here", document.Shorten(file)), Hint: "register the workflow, and write its name"}
	}
	if len(e.chain) > MaxChildren {
		return nil, tooManyLevels()
	}
	known, src, err := e.family.open(e.File, file)
	if err != nil {
		return nil, document.Refused("%v", err)
	}
	if i := slices.Index(e.chain, known); i >= 0 {
		return nil, document.Refused("the files form a cycle: %s", strings.Join(append(slices.Clone(e.chain[i:]), known), " -> "))
	}
	d, seen := e.family.files[known]
	if !seen {
		sub := e.within(known, string(src))
		d, err = sub.definition(document.Read(sub.Examiner, src, hints))
		e.family.files[known] = d
		e.keep(err)
	}
	if d == nil {
		e.refused = true
		return nil, &document.Judgement{} // reported with its own file
	}
	return d, nil
}

// embedded examines a definition inside this one.
func (e *examiner) embedded(path string, v *document.Value) (any, *document.Judgement) {
	if v.Kind != document.Object {
		return nil, document.WrongKind("a mapping", v)
	}
	if len(e.chain) > MaxChildren {
		return nil, tooManyLevels()
	}
	sub := e.within(e.File, "")
	sub.Stored, sub.Prefix = e.Stored, e.Prefix+path+"."
	d, err := sub.definition(v)
	if err != nil {
		e.keep(err)
		e.refused = true
		return nil, &document.Judgement{}
	}
	if fault := e.adopt(path, d); fault != nil {
		return nil, fault
	}
	return json.RawMessage(d.canonical), nil
}

// keep adds the problems of a child.
func (e *examiner) keep(err error) {
	var problems Problems
	if errors.As(err, &problems) {
		e.below = append(e.below, problems...)
	} else if err != nil {
		e.Report(document.Place{}, "", err.Error(), "")
	}
}

// adopt makes a definition the child whose canonical form is at path.
func (e *examiner) adopt(path string, d *Definition) *document.Judgement {
	if len(e.chain)+d.height > MaxChildren {
		return tooManyLevels()
	}
	if e.programs += d.programs; e.programs > MaxPrograms {
		return document.Refused("the workflow and its children have more than %d different expressions", MaxPrograms)
	}
	e.height = max(e.height, d.height+1)
	e.children[path] = d
	return nil
}

func tooManyLevels() *document.Judgement {
	return document.Refused("child workflows are nested deeper than %d", MaxChildren)
}
