package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

const (
	maxLine  = 16 << 20 // bytes of a line
	piece    = 256 << 10
	maxSmall = 1 << 20 // bytes of run.json
)

// A Line is a line of a journal, without its line feed.
type Line struct {
	Type string
	Data []byte
	Next int64 // where the line after it begins
}

// A Reader reads the lines of a journal. It is not safe for concurrent use. What a controller that has
// died has left of a line is never read.
type Reader struct {
	root *os.Root
	live *os.File
	lock *os.File
	at   int64
}

// OpenReader opens the journal that a folder is. Nothing outside of the folder is read. It is an error
// of kind pawl.NotFound if it is none.
func OpenReader(root *os.Root, name string) (_ *Reader, err error) {
	r := &Reader{}
	if r.root, err = root.OpenRoot(name); err == nil {
		r.live, err = OpenFile(r.root, liveFile)
	}
	if err == nil {
		r.lock, err = OpenFile(r.root, lockFile)
	}
	if err == nil {
		return r, nil
	}
	_ = r.Close() // nothing was read
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: "there is no journal " + name, Err: err}
	}
	return nil, err
}

// Close closes the files of the reader.
func (r *Reader) Close() error {
	var errs []error
	for _, f := range []*os.File{r.live, r.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if r.root != nil {
		errs = append(errs, r.root.Close())
	}
	return errors.Join(errs...)
}

// Info returns what was begun.
func (r *Reader) Info() (*Info, error) {
	i := &Info{}
	return i, r.json(runFile, i)
}

// Requested returns the request to end the run, or nil.
func (r *Reader) Requested() *Request {
	q := &Request{}
	if r.json(abortFile, q) != nil {
		return nil
	}
	return q
}

func (r *Reader) json(name string, v any) error {
	f, err := OpenFile(r.root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, maxSmall)).Decode(v)
}

// OpenFile opens a file of a folder for reading, and nothing else: opening a pipe would wait for a writer.
func OpenFile(root *os.Root, name string) (*os.File, error) {
	return openRegular(func(flag int) (*os.File, error) { return root.OpenFile(name, flag, 0) })
}

func openRegular(open func(flag int) (*os.File, error)) (*os.File, error) {
	f, err := open(os.O_RDONLY | syscall.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("it is no regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Alive reports whether the controller lives, as far as is known: a lock that cannot be tried may be held.
// Lines that it has written before are there when it does not any more.
func (r *Reader) Alive() bool {
	held, err := durable.Locked(r.lock)
	return held || err != nil
}

// Heard returns when the last line was written.
func (r *Reader) Heard() time.Time {
	info, err := r.live.Stat()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Abort asks for the end of the run. The first request counts.
func (r *Reader) Abort(q Request) error {
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	temp := abortFile + ".tmp-" + strconv.FormatUint(rand.Uint64(), 36)
	f, err := r.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err = f.Chmod(0o644); err == nil { // the controller may be another user's
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		if err = r.root.Link(temp, abortFile); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	return errors.Join(err, r.root.Remove(temp))
}

// From has the reader go on at a place, which is the Next of a line or 0. It is an error of kind
// pawl.Invalid if no line begins there.
func (r *Reader) From(at int64) error {
	before := []byte{'\n'}
	if at > 0 {
		if _, err := r.live.ReadAt(before, at-1); err != nil && err != io.EOF {
			return err
		}
	}
	info, err := r.live.Stat()
	if err != nil {
		return err
	}
	if at < 0 || at > info.Size() || before[0] != '\n' {
		return pawl.Errorf(pawl.Invalid, "no line of the run begins at %d", at)
	}
	r.at = at
	return nil
}

// Read calls f with each line that is there and was not read yet, until f fails. The data are valid
// until f returns.
func (r *Reader) Read(f func(Line) error) error {
	buffer := make([]byte, 0, piece)
	for {
		n, err := r.live.ReadAt(buffer[len(buffer):cap(buffer)], r.at+int64(len(buffer)))
		if err != nil && err != io.EOF {
			return err
		}
		ended := err == io.EOF
		buffer = buffer[:len(buffer)+n]
		rest := buffer
		for {
			line, after, whole := bytes.Cut(rest, []byte{'\n'})
			if !whole {
				break
			}
			rest, r.at = after, r.at+int64(len(line))+1
			if name := typeOf(line); name != "" {
				if err := f(Line{name, line, r.at}); err != nil {
					return err
				}
			}
		}
		if ended {
			return nil
		}
		if buffer = append(buffer[:0], rest...); len(buffer) == cap(buffer) {
			if len(buffer) >= maxLine {
				return pawl.Errorf(pawl.Invalid, "a line of the journal has more than %d bytes", maxLine)
			}
			buffer = slices.Grow(buffer, len(buffer))
		}
	}
}

// Agent opens the intervals of an agent; nil if none has come yet, or the journal is gone meanwhile. It is an error
// of kind pawl.Conflict if the journal has those of no agent.
func (r *Reader) Agent(index int) (*Records, error) {
	f, err := OpenFile(r.root, path.Join(agentsDir, recordsName(index)))
	if !errors.Is(err, fs.ErrNotExist) {
		return &Records{file: f}, err
	}
	if _, err := r.root.Lstat(agentsDir); errors.Is(err, fs.ErrNotExist) {
		if _, err := r.root.Lstat(liveFile); errors.Is(err, fs.ErrNotExist) { // see remove
			return nil, nil
		}
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "there are no intervals of each agent before the run has a result",
			Hint: "its program is an older one, or its file system has no hard links"}
	}
	return nil, nil
}

// A State is what the lines of a journal say that a run is: the last line of each kind, and of agents
// the last of each.
type State struct {
	Run      *Line
	Interval *Line
	End      *Line
	agents   map[int]*Line
	progress map[int]*Line
}

// Take takes a line.
func (s *State) Take(l Line) error {
	keep := Line{l.Type, bytes.Clone(l.Data), l.Next}
	switch l.Type {
	case TypeRun:
		s.Run = &keep
	case TypeInterval:
		s.Interval = &keep
	case TypeEnd:
		s.End = &keep
	case TypeAgent, TypeProgress:
		var of struct {
			Agent int `json:"agent"`
		}
		if json.Unmarshal(l.Data, &of) != nil {
			return nil // a line that a full disk has torn
		}
		if s.agents == nil {
			s.agents, s.progress = map[int]*Line{}, map[int]*Line{}
		}
		map[string]map[int]*Line{TypeAgent: s.agents, TypeProgress: s.progress}[l.Type][of.Agent] = &keep
	}
	return nil
}

// Lines returns the lines that the state is made of, in their order.
func (s *State) Lines() (all []Line) {
	for _, l := range []*Line{s.Run, s.Interval, s.End} {
		if l != nil {
			all = append(all, *l)
		}
	}
	for _, of := range []map[int]*Line{s.agents, s.progress} {
		for _, l := range of {
			all = append(all, *l)
		}
	}
	slices.SortFunc(all, func(a, b Line) int { return cmp.Compare(a.Next, b.Next) })
	return all
}

// Agents returns what each agent is.
func (s *State) Agents() (all []AgentLine) {
	for _, l := range s.agents {
		var a AgentLine
		if json.Unmarshal(l.Data, &a) == nil {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b AgentLine) int { return cmp.Compare(a.Agent, b.Agent) })
	return all
}

// Phase returns the last phase that the run has entered.
func (s *State) Phase() (r RunLine) {
	if s.Run != nil {
		_ = json.Unmarshal(s.Run.Data, &r) // a line that a full disk has torn is none
	}
	return r
}

// Last returns the last interval, or nil.
func (s *State) Last() *IntervalLine {
	i := &IntervalLine{}
	if s.Interval == nil || json.Unmarshal(s.Interval.Data, i) != nil {
		return nil
	}
	return i
}

// Ended returns how the run has ended, or nil.
func (s *State) Ended() *EndLine {
	e := &EndLine{}
	if s.End == nil || json.Unmarshal(s.End.Data, e) != nil {
		return nil
	}
	return e
}
