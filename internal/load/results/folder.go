package results

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	maxFile     = 64 << 20 // bytes of any other file that is read at once
	maxName     = 200      // bytes
)

// A Folder has the runs that are in a folder. It is safe for concurrent use. A file system that hangs
// holds up what is in it, for a time, and nothing else.
type Folder struct {
	root   *os.Root
	slow   time.Duration
	busy   *gate             // of those that read runs in short, as lists do
	deep   *gate             // of those that read what is in a run
	aborts *gate             // of those that end a run
	hold   func(file string) // tests have a file hang in it, which is about to be read; nil: none does

	mu   sync.Mutex // guards the fields below; nobody reads files while holding it
	runs map[string]*known
	next *list // that is being made; nil: none is
}

// A list is one of all runs, for all who ask while it is made.
type list struct {
	made chan struct{} // closed once it is, and then the others do not change
	runs []Run
	err  error
}

// known is what is known of a run from earlier.
type known struct {
	mu    sync.Mutex // guards the fields below while the run is read
	gone  bool       // it is not in the map any more
	ended *ended     // if it has a result
	on    *on        // if it has a journal
}

// ended is a run with a result, as it was read.
type ended struct {
	run   Run
	size  int64
	mtime time.Time
}

// on is a run with a journal, as far as that was read.
type on struct {
	reader *journal.Reader // nil: the controller is gone, and the run is over
	info   *journal.Info
	state  journal.State
	over   Run
}

// drop forgets the journal, which was only read.
func (k *known) drop() {
	if k.on != nil && k.on.reader != nil {
		_ = k.on.reader.Close()
	}
	k.on = nil
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
	return &Folder{root: root, slow: slow, busy: newGate(), deep: newGate(), aborts: newGate(), runs: map[string]*known{}}, nil
}

// Close closes what the folder has open. Nothing is called after it.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.runs {
		if k.mu.TryLock() { // or it is still being read, for ever perhaps
			k.drop()
			k.mu.Unlock()
		}
	}
	return f.root.Close()
}

// valid reports whether a name can be that of a run.
func valid(name string) bool {
	return name != "" && len(name) <= maxName && name[0] != '.' && filepath.IsLocal(name) && !strings.ContainsAny(name, `/\`) &&
		utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// List returns the runs, newest first, those of one time by their names. Those who ask at the same time share one list:
// it may have begun before. A run that hangs is damaged. It is an error of kind pawl.Unavailable if the folder itself
// hangs, too many runs do, or ctx ends; then the list is made nevertheless, for those who ask next.
func (f *Folder) List(ctx context.Context) ([]Run, error) {
	l := f.making()
	select {
	case <-l.made:
		return slices.Clone(l.runs), l.err
	case <-ctx.Done():
		return nil, hangs("the load runs cannot be listed in time")
	}
}

// making returns the list that is being made.
func (f *Folder) making() *list {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		l := &list{made: make(chan struct{})}
		f.next = l
		go func() {
			l.runs, l.err = f.list()
			f.mu.Lock()
			f.next = nil
			f.mu.Unlock()
			close(l.made)
		}()
	}
	return f.next
}

// list makes a list. It reads some runs at once, so that one that is slow or hangs holds up few others.
func (f *Folder) list() ([]Run, error) {
	names, err := inTime(context.Background(), f, f.busy, "", func(*progress) (map[string]bool, error) { return f.names() })
	if err != nil {
		return nil, err
	}
	var (
		mu   sync.Mutex // guards all and errs
		all  []Run
		errs error
		on   sync.WaitGroup
	)
	places := make(chan struct{}, maxListed)
	for name := range names {
		places <- struct{}{}
		on.Go(func() {
			defer func() { <-places }()
			r, err := f.listed(name)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				all = append(all, r)
			} else if !errors.Is(err, fs.ErrNotExist) {
				errs = err
			}
		})
	}
	on.Wait()
	if errs != nil {
		return nil, errs
	}
	f.forget(names)
	slices.SortFunc(all, func(a, b Run) int { return cmp.Compare(a.Place(), b.Place()) })
	return all, nil
}

// listed reads a run for a list, which waits for a place as long as it takes.
func (f *Folder) listed(name string) (Run, error) {
	if err := f.busy.enter(context.Background(), name); errors.Is(err, errTooMany) {
		return Run{}, err
	} else if err != nil {
		return hanging(name), nil
	}
	r, err := entered(context.Background(), f, f.busy, name, func(p *progress) (Run, error) { return f.run(p, name) })
	if pawl.KindOf(err) == pawl.Unavailable {
		return hanging(name), nil
	}
	return r, err
}

func hanging(name string) Run { return Run{Name: name, State: Damaged, Reason: hangsReason} }

// names returns the names that runs may have. It reads the folder alone: what is in it may hang.
func (f *Folder) names() (map[string]bool, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	names := map[string]bool{}
	for _, e := range entries {
		if name := cmp.Or(journal.ResultOf(e), e); valid(name) {
			names[name] = true
		}
	}
	return names, err
}

// forget forgets what is not in the folder any more, unless it is being read.
func (f *Folder) forget(names map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, k := range f.runs {
		if !names[name] && k.mu.TryLock() {
			f.remove(name, k)
			k.mu.Unlock()
		}
	}
}

// remove forgets a run that is locked. The folder is, too.
func (f *Folder) remove(name string, k *known) {
	k.drop()
	k.gone = true
	delete(f.runs, name)
}

// locked returns what is known of a run, locked.
func (f *Folder) locked(name string) *known {
	for {
		f.mu.Lock()
		k := f.runs[name]
		if k == nil {
			k = &known{}
			f.runs[name] = k
		}
		f.mu.Unlock()
		k.mu.Lock() // not within the other, as it may take long
		if !k.gone {
			return k
		}
		k.mu.Unlock()
	}
}

// Run returns a run. It is an error of kind pawl.NotFound if there is none, and pawl.Unavailable if
// the file system hangs.
func (f *Folder) Run(name string) (Run, error) {
	if !valid(name) {
		return Run{}, none(name)
	}
	r, err := inTime(context.Background(), f, f.busy, name, func(p *progress) (Run, error) { return f.run(p, name) })
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
func (f *Folder) run(p *progress, name string) (Run, error) {
	k := f.locked(name)
	defer k.mu.Unlock()
	r, err := f.result(p, name, k)
	if errors.Is(err, fs.ErrNotExist) {
		if r, err = f.journal(p, name, k); errors.Is(err, fs.ErrNotExist) {
			r, err = f.result(p, name, k) // it may have taken the place of the journal meanwhile
		}
	} else {
		k.drop()
	}
	if errors.Is(err, fs.ErrNotExist) { // anybody may ask for any name
		f.mu.Lock()
		f.remove(name, k)
		f.mu.Unlock()
	}
	return r, err
}

// result returns a run that has a result.
func (f *Folder) result(p *progress, name string, k *known) (Run, error) {
	info, err := f.root.Lstat(name)
	if err == nil && info.IsDir() {
		info, err = f.root.Lstat(path.Join(name, summaryFile))
	} else {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		k.ended = nil
		return Run{}, fs.ErrNotExist
	}
	if err != nil {
		return Run{Name: name, State: Damaged, Reason: err.Error()}, nil
	}
	if e := k.ended; e != nil && e.size == info.Size() && e.mtime.Equal(info.ModTime()) {
		return e.run, nil
	}
	r := f.read(p, name, info)
	k.ended = &ended{r, info.Size(), info.ModTime()}
	return r, nil
}

// read reads the summary of a result.
func (f *Folder) read(p *progress, name string, info fs.FileInfo) Run {
	s, err := f.summary(p, name)
	if err != nil {
		return Run{Name: name, State: Damaged, Begun: info.ModTime().UTC(), Reason: err.Error()}
	}
	return ofSummary(name, s)
}

// journal returns a run that has a journal. That of a controller that is gone is read once.
func (f *Folder) journal(p *progress, name string, k *known) (Run, error) {
	o, err := f.reading(name, k)
	if err != nil {
		return Run{}, err
	}
	if o.reader == nil {
		return o.over, nil
	}
	alive := o.reader.Alive() // before its lines: none comes after it
	if err := o.reader.Read(noting(p, o.state.Take)); err != nil {
		return Run{Name: name, ID: o.info.Run, Load: o.info.Name, State: Damaged, Begun: o.info.Begun, Reason: err.Error()}, nil
	}
	r := ofJournal(name, o.info, &o.state)
	r.Heard, r.Requested = o.reader.Heard().UTC(), o.reader.Requested()
	if alive {
		return r, nil
	}
	k.drop()
	if _, err := f.root.Lstat(journal.NameOf(name)); err != nil { // it has just ended
		return Run{}, fs.ErrNotExist
	}
	r.over(o.state.Ended(), o.state.Phase().Start != nil)
	k.on = &on{info: o.info, state: o.state, over: r}
	return r, nil
}

// noting returns a function that takes a line as take does, and notes progress.
func noting(p *progress, take func(journal.Line) error) func(journal.Line) error {
	return func(l journal.Line) error {
		p.made()
		return take(l)
	}
}

// reading returns the journal of a name, opened anew if it is another one than before, or
// fs.ErrNotExist. Journals are told apart by what was begun: inodes are used again.
func (f *Folder) reading(name string, k *known) (*on, error) {
	folder := journal.NameOf(name)
	if info, err := f.root.Lstat(folder); err != nil || !info.IsDir() {
		k.drop()
		return nil, fs.ErrNotExist
	}
	reader, err := journal.OpenReader(f.root, folder)
	if err != nil {
		k.drop()
		return nil, fs.ErrNotExist // it is none, or has gone
	}
	info, err := reader.Info()
	if o := k.on; o != nil && err == nil && *o.info == *info {
		return o, reader.Close()
	}
	k.drop()
	if err != nil {
		_ = reader.Close() // it was only read
		return nil, fs.ErrNotExist
	}
	k.on = &on{reader: reader, info: info}
	return k.on, nil
}

// openJournal opens the journal of a run. It is an error of kind pawl.NotFound if there is none, or none any more.
func (f *Folder) openJournal(run string) (*journal.Reader, error) {
	f.reads(journal.NameOf(run))
	return journal.OpenReader(f.root, journal.NameOf(run))
}

// open opens a file, whose reading is progress.
func (f *Folder) open(p *progress, name string) (*watched, error) {
	f.reads(name)
	file, err := journal.OpenFile(f.root, name)
	if err != nil {
		return nil, err
	}
	p.made()
	return &watched{file, p, f, name}, nil
}

// reads is called before a file is read.
func (f *Folder) reads(name string) {
	if f.hold != nil {
		f.hold(name)
	}
}

// A watched file notes progress.
type watched struct {
	*os.File
	progress *progress
	folder   *Folder
	name     string
}

// Read implements io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	w.folder.reads(w.name)
	n, err := w.File.Read(b)
	w.progress.made()
	return n, err
}

// regular are the files of a folder, but for pipes and others that are no regular ones: opening them might
// wait for ever.
type regular struct {
	folder   *Folder
	progress *progress
}

// Open implements fs.FS.
func (r regular) Open(name string) (fs.File, error) {
	file, err := r.folder.open(r.progress, name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// files returns the files of the result of a run.
func (f *Folder) files(p *progress, name string) (fs.FS, error) {
	if !valid(name) {
		return nil, none(name)
	}
	if info, err := f.root.Lstat(name); err != nil || !info.IsDir() {
		return nil, none(name)
	}
	return fs.Sub(regular{f, p}, name)
}

// Summary returns what the result of a run says of it.
func (f *Folder) Summary(name string) (*report.Summary, error) {
	return inTime(context.Background(), f, f.deep, name, func(p *progress) (*report.Summary, error) { return f.summary(p, name) })
}

func (f *Folder) summary(p *progress, name string) (*report.Summary, error) {
	files, err := f.files(p, name)
	if err != nil {
		return nil, err
	}
	if info, err := f.root.Lstat(path.Join(name, summaryFile)); err == nil && info.Size() > maxSummary {
		return nil, pawl.Errorf(pawl.Invalid, "%s has more than %d bytes", filepath.Join(name, summaryFile), maxSummary)
	}
	return report.ReadSummary(files, name)
}

// Report reads the result of a run, and evaluates it: that takes as much memory as the records have.
func (f *Folder) Report(name string) (*report.Report, error) {
	if err := f.mustHaveEnded(name); err != nil {
		return nil, err
	}
	r, err := inTime(context.Background(), f, f.deep, name, func(p *progress) (*report.Report, error) {
		files, err := f.files(p, name)
		if err != nil {
			return nil, err
		}
		return report.ReadFS(files, name)
	})
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
	case !r.Result && r.State != Damaged:
		return pawl.Errorf(pawl.Conflict, "run %s has no result: %s", name, r.Reason)
	}
	return nil
}

// Config returns the load file of a run.
func (f *Folder) Config(name string) ([]byte, error) {
	return f.file(name, "config.yaml")
}

// Agents returns what the agents of a run that has no result are, and how far those are that prepare.
func (f *Folder) Agents(name string) ([]journal.AgentLine, error) {
	return inTime(context.Background(), f, f.busy, name, func(*progress) ([]journal.AgentLine, error) {
		k := f.locked(name)
		defer k.mu.Unlock()
		o, err := f.reading(name, k)
		if err != nil {
			return nil, none(name)
		}
		return o.state.Agents(), nil
	})
}

// file returns the contents of a file of a run.
func (f *Folder) file(name, file string) ([]byte, error) {
	if !valid(name) {
		return nil, none(name)
	}
	return inTime(context.Background(), f, f.deep, name, func(p *progress) ([]byte, error) {
		for _, folder := range []string{name, journal.NameOf(name), name} { // it may end meanwhile
			if info, err := f.root.Lstat(folder); err != nil || !info.IsDir() {
				continue
			}
			in, err := f.open(p, path.Join(folder, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			defer in.Close()
			data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
			if err == nil && len(data) > maxFile {
				err = pawl.Errorf(pawl.Conflict, "%s of run %.50q has more than %d bytes", file, name, maxFile)
			}
			return data, err
		}
		return nil, pawl.Errorf(pawl.NotFound, "run %.50q has no %s", name, file)
	})
}

// History calls each with the rows of the trail of a run, until it fails or ctx ends. A last row that a controller
// has left incomplete as it died is none.
func (f *Folder) History(ctx context.Context, name string, each func(*audit.Entry) error) error {
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
		if err := ctx.Err(); err != nil {
			return err
		}
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
