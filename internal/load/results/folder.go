package results

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
)

const (
	summaryFile = "summary.json"
	maxSummary  = 64 << 20 // bytes
	maxName     = 200      // bytes
)

// A Folder has the runs that are in a folder. It is safe for concurrent use.
type Folder struct {
	root *os.Root

	mu    sync.Mutex // guards the fields below
	ended map[string]ended
	on    map[string]*on
}

// ended is a run with a result, as it was read.
type ended struct {
	run   Run
	size  int64
	mtime time.Time
}

// on is a run with a journal, as far as that was read.
type on struct {
	reader *journal.Reader // nil: the controller has died, and the run is lost
	info   *journal.Info
	state  journal.State
	lost   Run
}

// close closes what is open of a journal, which was only read.
func (o *on) close() {
	if o.reader != nil {
		_ = o.reader.Close()
	}
}

// Open opens a folder of runs. It is an error of kind pawl.NotFound if there is none.
func Open(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: "there is no folder " + dir, Hint: "create it with: mkdir -p " + dir}
	}
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the folder " + dir + " cannot be read", Err: err}
	}
	return &Folder{root: root, ended: map[string]ended{}, on: map[string]*on{}}, nil
}

// Close closes what the folder has open. Nothing is called after it.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.on {
		o.close()
	}
	return f.root.Close()
}

// valid reports whether a name can be that of a run.
func valid(name string) bool {
	return name != "" && len(name) <= maxName && name[0] != '.' && filepath.IsLocal(name) && !strings.ContainsAny(name, `/\`) &&
		utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// List returns the runs, newest first, those of one time by their names.
func (f *Folder) List() ([]Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range entries {
		name := cmp.Or(journal.ResultOf(e.Name()), e.Name())
		if e.IsDir() && valid(name) { // a symbolic link is none
			names[name] = true
		}
	}
	var all []Run
	for name := range names {
		r, err := f.run(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	f.forget(names)
	slices.SortFunc(all, func(a, b Run) int { return cmp.Compare(a.Place(), b.Place()) })
	return all, nil
}

// forget forgets what is not in the folder any more.
func (f *Folder) forget(names map[string]bool) {
	for name := range f.ended {
		if !names[name] {
			delete(f.ended, name)
		}
	}
	for name := range f.on {
		if !names[name] {
			f.drop(name)
		}
	}
}

func (f *Folder) drop(name string) {
	if o := f.on[name]; o != nil {
		o.close()
		delete(f.on, name)
	}
}

// Run returns a run.
func (f *Folder) Run(name string) (Run, error) {
	if !valid(name) {
		return Run{}, none(name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.run(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = none(name)
	}
	return r, err
}

func none(name string) error {
	return pawl.Errorf(pawl.NotFound, "there is no load run %.50q", name)
}

// run returns a run, or fs.ErrNotExist. One that has a result has ended, whatever is left of its
// journal.
func (f *Folder) run(name string) (Run, error) {
	r, err := f.result(name)
	if errors.Is(err, fs.ErrNotExist) {
		if r, err = f.journal(name); errors.Is(err, fs.ErrNotExist) {
			return f.result(name) // it may have taken the place of the journal meanwhile
		}
		return r, err
	}
	f.drop(name)
	return r, err
}

// result returns a run that has a result.
func (f *Folder) result(name string) (Run, error) {
	info, err := f.root.Lstat(name)
	if err == nil && info.IsDir() {
		info, err = f.root.Lstat(path.Join(name, summaryFile))
	} else {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		delete(f.ended, name)
		return Run{}, fs.ErrNotExist
	}
	if err != nil {
		return Run{Name: name, State: Damaged, Reason: err.Error()}, nil
	}
	if known, is := f.ended[name]; is && known.size == info.Size() && known.mtime.Equal(info.ModTime()) {
		return known.run, nil
	}
	r := f.read(name, info)
	f.ended[name] = ended{r, info.Size(), info.ModTime()}
	return r, nil
}

// read reads the summary of a result.
func (f *Folder) read(name string, info fs.FileInfo) Run {
	damaged := Run{Name: name, State: Damaged, Begun: info.ModTime().UTC()}
	switch {
	case !info.Mode().IsRegular():
		damaged.Reason = summaryFile + " is no file"
		return damaged
	case info.Size() > maxSummary:
		damaged.Reason = fmt.Sprintf("%s has more than %d bytes", summaryFile, maxSummary)
		return damaged
	}
	s, err := f.Summary(name)
	if err != nil {
		damaged.Reason = err.Error()
		return damaged
	}
	return ofSummary(name, s)
}

// journal returns a run that has a journal. That of a controller that has died is read once.
func (f *Folder) journal(name string) (Run, error) {
	o, err := f.reading(name)
	if err != nil || o.reader == nil {
		return o.lost, err
	}
	alive := o.reader.Alive() // before its lines: none comes after it
	if err := o.reader.Read(o.state.Take); err != nil {
		return Run{Name: name, ID: o.info.Run, Load: o.info.Name, State: Damaged, Begun: o.info.Begun, Reason: err.Error()}, nil
	}
	r := ofJournal(name, o.info, &o.state)
	r.Heard, r.Requested = o.reader.Heard().UTC(), o.reader.Requested()
	if alive {
		return r, nil
	}
	if _, err := f.root.Lstat(journal.NameOf(name)); err != nil { // it has just ended
		f.drop(name)
		return Run{}, fs.ErrNotExist
	}
	r.State, r.Reason = Lost, LostReason
	f.drop(name)
	f.on[name] = &on{info: o.info, state: o.state, lost: r}
	return r, nil
}

// LostReason is why a run is lost.
const LostReason = "its controller has died without a result"

// reading returns the journal of a name, opened anew if it is another one than before, or
// fs.ErrNotExist. Journals are told apart by what was begun: inodes are used again.
func (f *Folder) reading(name string) (*on, error) {
	folder := journal.NameOf(name)
	if info, err := f.root.Lstat(folder); err != nil || !info.IsDir() {
		f.drop(name)
		return &on{}, fs.ErrNotExist
	}
	reader, err := journal.OpenReader(f.root, folder)
	if err != nil {
		f.drop(name)
		return &on{}, fs.ErrNotExist // it is none, or has gone
	}
	info, err := reader.Info()
	if o := f.on[name]; o != nil && err == nil && *o.info == *info {
		return o, reader.Close()
	}
	f.drop(name)
	if err != nil {
		_ = reader.Close() // it was only read
		return &on{}, fs.ErrNotExist
	}
	o := &on{reader: reader, info: info}
	f.on[name] = o
	return o, nil
}

// files returns the files of the result of a run.
func (f *Folder) files(name string) (fs.FS, error) {
	if !valid(name) {
		return nil, none(name)
	}
	if info, err := f.root.Lstat(name); err != nil || !info.IsDir() {
		return nil, none(name)
	}
	return fs.Sub(f.root.FS(), name)
}

// Summary returns what the result of a run says of it.
func (f *Folder) Summary(name string) (*report.Summary, error) {
	files, err := f.files(name)
	if err != nil {
		return nil, err
	}
	return report.ReadSummary(files, name)
}

// Report reads the result of a run, and evaluates it: that takes as much memory as the records have.
func (f *Folder) Report(name string) (*report.Report, error) {
	if err := f.mustHaveEnded(name); err != nil {
		return nil, err
	}
	files, err := f.files(name)
	if err != nil {
		return nil, err
	}
	r, err := report.ReadFS(files, name)
	var e *pawl.Error
	if err != nil && !errors.As(err, &e) {
		err = &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the result of run %s is damaged", name), Err: err}
	}
	return r, err
}

// mustHaveEnded returns an error of kind pawl.Conflict for a run that has no result.
func (f *Folder) mustHaveEnded(name string) error {
	r, err := f.Run(name)
	switch {
	case err != nil:
		return err
	case r.State.On():
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("run %s is on", name), Hint: "follow it, or wait for its end"}
	case r.State == Lost:
		return pawl.Errorf(pawl.Conflict, "run %s has no result: %s", name, LostReason)
	}
	return nil
}

// Config returns the load file of a run.
func (f *Folder) Config(name string) ([]byte, error) {
	return f.file(name, "config.yaml")
}

// Agents returns what the agents of a run that has no result are, and how far those are that prepare.
func (f *Folder) Agents(name string) ([]journal.AgentLine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.reading(name)
	if err != nil {
		return nil, none(name)
	}
	return o.state.Agents(), nil
}

// file returns the contents of a file of a run.
func (f *Folder) file(name, file string) ([]byte, error) {
	if !valid(name) {
		return nil, none(name)
	}
	for _, folder := range []string{name, journal.NameOf(name), name} { // it may end meanwhile
		if info, err := f.root.Lstat(folder); err != nil || !info.IsDir() {
			continue
		}
		data, err := f.root.ReadFile(path.Join(folder, file))
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	return nil, pawl.Errorf(pawl.NotFound, "run %.50q has no %s", name, file)
}

// History calls each with the rows of the trail of a run, until it fails. A last row that a controller
// has left incomplete as it died is none.
func (f *Folder) History(name string, each func(*audit.Entry) error) error {
	if _, err := f.Run(name); err != nil {
		return err
	}
	rows, err := f.file(name, "trail.jsonl")
	if pawl.KindOf(err) == pawl.NotFound { // of an older program
		return nil
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(rows) {
		row := new(audit.Entry)
		if !bytes.HasSuffix(line, []byte{'\n'}) {
			return nil
		}
		if err := row.UnmarshalJSON(line); err != nil {
			return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the trail of run %s is damaged", name), Err: err}
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// Abort asks for the end of a run that is on. The first request counts.
func (f *Folder) Abort(name string, q journal.Request) error {
	r, err := f.Run(name)
	switch {
	case err != nil:
		return err
	case !r.State.On():
		return pawl.Errorf(pawl.Conflict, "run %s is not on: it is %s", name, r.State)
	}
	reader, err := f.Follow(name)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := reader.Abort(q); err != nil {
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the request to end run %s cannot be written", name), Err: err}
	}
	return nil
}

// Follow opens the journal of a run. It is an error of kind pawl.NotFound if it has none, or none any
// more.
func (f *Folder) Follow(name string) (*journal.Reader, error) {
	if !valid(name) {
		return nil, none(name)
	}
	return journal.OpenReader(f.root, journal.NameOf(name))
}
