package crew

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
)

// A Profile says how an agent program is started without a terminal.
type Profile struct {
	Name        string
	Description string
	Command     []string          // with placeholders; see Program
	Resume      []string          // likewise, for a further run of an assignment; empty: Command
	Env         map[string]string // beside that of Pawl
}

// A Scope is what the placeholders of a profile stand for.
type Scope struct {
	Prompt     string // {prompt}: what the agent has to know
	PromptFile string // {prompt_file}: a file with it
	Session    string // {session}: a UUID of the assignment
	GitDir     string // {git_dir}: where commits are written
	CrewDir    string // {crew_dir}: the folder of the crew
}

// Program returns the program of a profile, for the first run of an assignment or for a further one.
func (p *Profile) Program(s Scope, further bool) Program {
	argv := p.Command
	if further && len(p.Resume) > 0 {
		argv = p.Resume
	}
	fill := strings.NewReplacer("{prompt}", s.Prompt, "{prompt_file}", s.PromptFile, "{session}", s.Session, "{git_dir}", s.GitDir, "{crew_dir}", s.CrewDir)
	var out Program
	for _, one := range argv {
		out.Argv = append(out.Argv, fill.Replace(one))
	}
	for _, key := range slices.Sorted(maps.Keys(p.Env)) {
		out.Env = append(out.Env, key+"="+p.Env[key])
	}
	return out
}

// session returns a UUID (RFC 9562, version 8) that belongs to an assignment.
func (f *Folder) session(id string, epoch int64) string {
	u := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", f.Dir, id, epoch))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

//go:embed profiles/*.yaml
var builtin embed.FS

// ProfilesDir is the folder for profiles of users, below that of the user's configuration.
const ProfilesDir = "pawl/agents"

var (
	argument     = &document.Shape{Kind: document.ShapeText, Max: maxCommand}
	commandShape = &document.Shape{Kind: document.ShapeList, Min: 1, Max: 1000, Elem: argument, Hint: "write [PROGRAM, ARGUMENT]"}
	profileShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {command: [PROGRAM, ARGUMENT]}", Fields: []document.Field{
		{Name: "description", Shape: &document.Shape{Kind: document.ShapeText, Max: maxNote}},
		{Name: "command", Required: true, Shape: commandShape, Elsewhere: []string{"run", "argv"}},
		{Name: "resume", Shape: commandShape},
		{Name: "env", Shape: &document.Shape{Kind: document.ShapeMap, Max: 1000, Elem: argument,
			Key: &document.Shape{Kind: document.ShapeText, Min: 1, Max: maxID, Pattern: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), PatternDoc: "the name of a variable"}}},
	}}
)

// FindProfile returns a profile: one of the user's, in a folder that need not exist, or of Pawl.
func FindProfile(folder, name string) (*Profile, error) {
	if err := checkID("name of the profile", name, idPattern, "lower-case letters and digits, with single hyphens between them"); err != nil {
		return nil, err
	}
	path, src, err := profileSource(folder, name)
	if err != nil {
		return nil, err
	}
	e := document.NewExaminer(path)
	root := document.Read(e, src, document.Hints{Empty: "write command: [PROGRAM, ARGUMENT]", Several: "keep one document", Tag: "quote the text if it begins with !"})
	var normal any
	if root != nil {
		normal, _ = e.Examine("", root, profileShape)
	}
	if len(e.Problems) > 0 {
		e.Problems.Sort()
		return nil, e.Problems
	}
	m := normal.(map[string]any)
	p := &Profile{Name: name, Description: textOf(m, "description"), Command: textsOf(m, "command"), Resume: textsOf(m, "resume"), Env: map[string]string{}}
	env, _ := m["env"].(map[string]any)
	for key, value := range env {
		p.Env[key] = value.(string)
	}
	return p, nil
}

func textsOf(m map[string]any, key string) (list []string) {
	all, _ := m[key].([]any)
	for _, one := range all {
		s, _ := one.(string)
		list = append(list, s)
	}
	return list
}

func profileSource(folder, name string) (path string, src []byte, err error) {
	if folder != "" {
		path = filepath.Join(folder, name+".yaml")
		src, err = readFile(path, maxState)
		if !errors.Is(err, fs.ErrNotExist) {
			return path, src, err
		}
	}
	path = "profiles/" + name + ".yaml"
	if src, err = builtin.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
		names, err := ProfileNames(folder)
		if err != nil {
			return "", nil, err
		}
		return "", nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no profile %q: want one of %s", name, strings.Join(names, ", ")), Hint: document.DidYouMean(name, names)}
	}
	return path, src, err
}

// ProfileNames returns the names of all profiles, sorted.
func ProfileNames(folder string) (names []string, err error) {
	list, err := builtin.ReadDir("profiles")
	if err != nil {
		return nil, err
	}
	if folder != "" {
		own, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		list = append(list, own...)
	}
	for _, one := range list {
		if name, ok := strings.CutSuffix(one.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
