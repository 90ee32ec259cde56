package profile

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/gofrs/flock"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/remote"
)

// A Profile is a server and how it is used. The server and its credentials belong together:
// nothing of one profile is sent to another server.
type Profile struct {
	Server       string `yaml:"server" json:"server"`
	TokenFile    string `yaml:"token_file,omitempty" json:"token_file,omitempty"`
	TokenCommand string `yaml:"token_command,omitempty" json:"token_command,omitempty"`
	Workspace    string `yaml:"workspace,omitempty" json:"workspace,omitempty"`
	CA           string `yaml:"ca,omitempty" json:"ca,omitempty"`
	ClientCert   string `yaml:"client_cert,omitempty" json:"client_cert,omitempty"`
	ClientKey    string `yaml:"client_key,omitempty" json:"client_key,omitempty"`
	Confirm      bool   `yaml:"confirm,omitempty" json:"confirm,omitempty"`
}

// A File is the contents of the file.
type File struct {
	Default  string             `yaml:"default,omitempty"`
	Profiles map[string]Profile `yaml:"profiles"`
}

// Names returns the names of the profiles, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Profiles)) }

// Find returns a profile. The error is of kind NotFound, and names those that there are.
func (f *File) Find(name string) (Profile, error) {
	p, ok := f.Profiles[name]
	if ok {
		return p, nil
	}
	err := &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no profile %q", name), Hint: "add one with: pawl profile add NAME --server URL"}
	if names := f.Names(); len(names) > 0 {
		err.Message += ": want " + console.Alternatives(names)
		err.Hint = document.DidYouMean(name, names)
	}
	return p, err
}

const (
	maxName     = 63
	maxText     = 4 << 10 // bytes of a value
	maxProfiles = 1000
)

var name = &document.Shape{Kind: document.ShapeText, Min: 1, Max: maxName, Pattern: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`), PatternDoc: "a name: letters, 0-9, . _ and -, no sign first"}

var text = &document.Shape{Kind: document.ShapeText, Min: 1, Max: maxText, Pattern: regexp.MustCompile(`^[^\x00-\x1f\x7f]+$`), PatternDoc: "text on one line"}

var profileShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {server: URL}", Also: together, Fields: []document.Field{
	{Name: "server", Required: true, Shape: text, Elsewhere: []string{"url", "address"}},
	{Name: "token_file", Shape: text, Elsewhere: []string{"token"}},
	{Name: "token_command", Shape: text},
	{Name: "workspace", Shape: text, Elsewhere: []string{"namespace"}},
	{Name: "ca", Shape: text, Elsewhere: []string{"ca_file"}},
	{Name: "client_cert", Shape: text, Elsewhere: []string{"cert"}},
	{Name: "client_key", Shape: text, Elsewhere: []string{"key"}},
	{Name: "confirm", Shape: &document.Shape{Kind: document.ShapeBoolean}},
}}

var fileShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {profiles: {NAME: {server: URL}}}", Also: defaultExists, Fields: []document.Field{
	{Name: "default", Shape: name, Elsewhere: []string{"current", "current-context"}},
	{Name: "profiles", Required: true, Shape: &document.Shape{Kind: document.ShapeMap, Max: maxProfiles, Key: name, Elem: profileShape, Hint: "write {NAME: {server: URL}}"}},
}}

// together checks what the keys of a profile mean together.
func together(e *document.Examiner, path string, v *document.Value, m map[string]any) {
	has := func(key string) bool { return v.Find(key) != nil }
	if server, _ := m["server"].(string); has("server") && server != "" {
		if _, err := remote.Parse(server); err != nil {
			e.ReportAt(path+".server", err.Error(), console.Hint(err))
		}
	}
	if has("token_file") && has("token_command") {
		e.ReportKey(path+".token_command", "goes without token_file: want one of them", "")
	}
	if has("client_cert") != has("client_key") {
		e.ReportAt(path, "client_cert and client_key: want both, or none", "")
	}
}

func defaultExists(e *document.Examiner, _ string, v *document.Value, m map[string]any) {
	all, _ := m["profiles"].(map[string]any)
	if named, _ := m["default"].(string); named != "" && all[named] == nil && v.Find("profiles") != nil {
		names := slices.Sorted(maps.Keys(all))
		e.ReportAt("default", fmt.Sprintf("there is no profile %q", named), e.Suggest(named, names))
	}
}

// Read reads a file. A file that does not exist is an error of kind NotFound.
func Read(path string) (*File, error) {
	f, _, err := read(path)
	return f, err
}

func read(path string) (*File, []byte, error) {
	open, err := files.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer open.Close()
	src, err := io.ReadAll(io.LimitReader(open, document.MaxSource+1))
	if err != nil {
		return nil, nil, files.Error(path, err)
	}
	f, err := Parse(path, src)
	if err != nil {
		return nil, nil, err
	}
	info, err := open.Stat()
	if err != nil {
		return nil, nil, files.Error(path, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && f.secret() {
		return nil, nil, &pawl.Error{Kind: pawl.Refused, Message: fmt.Sprintf("%s has the mode %04o, but says where secrets are: want 0600", console.Shell(path), mode),
			Hint: "make it yours alone with: chmod 600 " + console.Shell(path)}
	}
	return f, src, nil
}

// secret reports whether the file says where secrets are.
func (f *File) secret() bool {
	for _, p := range f.Profiles {
		if p.TokenFile+p.TokenCommand+p.ClientKey != "" {
			return true
		}
	}
	return false
}

// Parse parses the source of a file. The error is of type document.Problems.
func Parse(path string, src []byte) (*File, error) {
	e := document.NewExaminer(path)
	hint := document.Hints{Empty: "write profiles: {NAME: {server: URL}}", Several: "keep one document", Tag: "quote the text if it begins with !"}
	root := document.Read(e, src, hint)
	if root == nil {
		return nil, e.Problems
	}
	normal, _ := e.Examine("", root, fileShape)
	if len(e.Problems) > 0 {
		e.Problems.Sort()
		return nil, e.Problems
	}
	m := normal.(map[string]any)
	f := &File{Default: textOf(m, "default"), Profiles: map[string]Profile{}}
	for name, of := range m["profiles"].(map[string]any) {
		p := of.(map[string]any)
		f.Profiles[name] = Profile{Server: textOf(p, "server"), TokenFile: textOf(p, "token_file"), TokenCommand: textOf(p, "token_command"), Workspace: textOf(p, "workspace"),
			CA: textOf(p, "ca"), ClientCert: textOf(p, "client_cert"), ClientKey: textOf(p, "client_key"), Confirm: p["confirm"] == true}
	}
	return f, nil
}

func textOf(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// Change changes the file, or makes it, with the mode 0600. What change leaves has to be valid.
func Change(path string, change func(*File) error) error {
	if real, err := filepath.EvalSymlinks(path); err == nil { // a link stays one
		path = real
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return files.Error(dir, err)
	}
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		return files.Error(dir, err)
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process anyway
	f, src, err := read(path)
	if pawl.KindOf(err) == pawl.NotFound {
		f, err = &File{Profiles: map[string]Profile{}}, nil
	}
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	made, err := f.encoded(src)
	if err != nil {
		return err
	}
	if _, err := Parse(path, made); err != nil {
		return err
	}
	return files.Replace(path, func(w io.Writer) error {
		_, err := w.Write(made)
		return err
	})
}

// encoded returns the text of the file, with the comments that were in src.
func (f *File) encoded(src []byte) ([]byte, error) {
	comments := yaml.CommentMap{}
	var before any
	if err := yaml.UnmarshalWithOptions(src, &before, yaml.CommentToMap(comments)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b, err := yaml.MarshalWithOptions(f, yaml.WithComment(comments))
	if err != nil {
		return nil, fmt.Errorf("write the profiles: %w", err)
	}
	return b, nil
}

// At returns the path of a file that a profile names: ~/ is the home folder, and a relative path
// is relative to the folder of the file of profiles.
func At(config, home, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(config), path)
}
