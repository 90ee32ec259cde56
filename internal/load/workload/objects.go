//go:build linux

package workload

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/s3"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// maxParked is how many goroutines with requests wait in the system at the same time, as clock.untilParked does,
// without keeping others from running.
const maxParked = 62

// mostBlocked returns how many threads may keep a processor while they are blocked. With an object store these are
// those that wait for the time at which an operation is due.
func (r *run) mostBlocked() int {
	switch {
	case r.store == nil:
		return r.test.Jobs
	case r.test.Rate != nil:
		return min(r.test.Jobs, maxParked)
	}
	return max(runtime.NumCPU()-2, 0)
}

// openStore makes the store of a layout, and returns the prefix of the bucket that confines the run, as a path.
// Each request in flight is a job then.
func (l *layout) openStore() (root string, err error) {
	location, err := s3.ParseLocation(l.job.Root)
	if err != nil {
		return "", invalid("s3", "", "s3: %q: %w", l.job.Root, err)
	}
	if l.job.Access == nil {
		return "", invalid("s3", "", "%w", s3.ErrNoCredentials)
	}
	credentials, ca, err := l.job.Access()
	if err != nil {
		return "", &fault{loadpb.ErrorCode_ERROR_CODE_PERMISSION, "s3", "", err}
	}
	o := l.test.S3 // it is there with the engine s3
	l.store, err = s3.NewStore(s3.Config{
		Location: location, Region: o.Region, Credentials: credentials, CA: ca,
		Timeout: o.Timeout, PartSize: o.PartSize, PartsAtOnce: o.PartsAtOnce, Retries: o.Retries, SignPayload: o.SignPayload,
	})
	if err != nil {
		return "", invalid("s3", "", "s3: %w", err)
	}
	l.test.Jobs, l.test.Depth = l.test.Jobs*l.test.Depth, 1
	return "/" + location.Prefix, nil
}

// storeFault is an error of the object store with what was done.
func (l *layout) storeFault(err error) error {
	if err == nil {
		return nil
	}
	return &fault{codeOf(err), "s3", "", err}
}

// promptly is how long a store may let wait where nothing is measured: in a plan, and in a cleanup, which has to try
// again and to give up before the agent takes it for one that does not go on.
const promptly = 5 * time.Second

// patience is how long a preparation waits for the store: less than the agent waits for the preparation, so that
// the reason is known.
func (l *layout) patience() time.Duration { return l.test.Timeouts.Prepare * 3 / 4 }

// reach returns an error if the object store cannot be used.
func (l *layout) reach() error {
	c := l.store.Within(promptly).Client()
	defer c.Close()
	_, err := l.look(c)
	return err
}

// look returns the first objects of the agent in the folder of the run. It is an error if the credentials do not allow
// what cleaning up needs to find all.
func (l *layout) look(c *s3.Client) (s3.Page, error) {
	p, err := c.List(l.base+l.prefix, "", false, 1)
	if err == nil && l.inParts() {
		_, _, err = c.Uploads(l.base+l.prefix, s3.Upload{})
	}
	return p, l.storeFault(err)
}

// openBucket begins the manifest, after it has seen that nobody has used the id of the run.
func (p *preparation) openBucket() (err error) {
	p.client = p.store.Within(p.patience()).Client()
	there, err := p.look(p.client)
	if err != nil {
		return err
	}
	if p.prefix != "" && len(there.Keys) > 0 {
		return &fault{loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED, "s3", "every run needs an id of its own", errExists(p.whole(p.prefix))}
	}
	p.manifest, err = createManifest(p.layout, 0)
	return err
}

// An errExists is of a place that is taken.
type errExists string

func (e errExists) Error() string { return "there are objects in " + string(e) + " already" }

// whole returns what a name in the run stands for, for errors.
func (p *preparation) whole(name string) string {
	if p.store == nil {
		return p.dir.name + "/" + name
	}
	return p.store.Endpoint + "/" + p.store.Bucket + "/" + p.base + name
}

// has reports whether there is a file or an object of a name, and its size.
func (p *preparation) has(name string) (size int64, ok bool, err error) {
	if p.store == nil {
		return p.dir.has(name)
	}
	size, err = p.client.Head(p.base + name)
	if s3.KindOf(err) == s3.NotFound {
		return 0, false, nil
	}
	return size, err == nil, p.storeFault(err)
}

// objectWriter returns what uploads the object of a file. It takes the place of writeFile.
func (p *preparation) objectWriter(client *s3.Client) func(context.Context, *set, uint64, *content, stats.Table) (uint64, error) {
	client.Sent = func(n int) { p.bytes.Add(uint64(n)) } // as it goes: an upload may take longer than timeouts.prepare
	return func(_ context.Context, s *set, file uint64, c *content, latencies stats.Table) (uint64, error) {
		size, id := s.size(file), s.content(file)
		began := time.Now()
		err := client.Put(p.base+s.path(file), size, func(offset int64, n int) []byte { return c.at(id, offset, n) })
		if err != nil {
			return 0, p.storeFault(err)
		}
		count(latencies, int(size), time.Since(began)-client.Aside)
		return uint64(size), nil
	}
}

// lastTries is for how long after the end of a run a request is still tried again. Were it none, each operation that is
// between two tries at the end would be an error.
const lastTries = 5 * time.Second

// An objects is what a thread reaches an object store with.
type objects struct {
	client *s3.Client
	err    error // of the last operation that failed
	key    []byte
	body   s3.Body
	piece  func(int64, []byte) error

	// What body makes and piece compares.
	contents *content
	id       uint64
	from     int64         // where the content begins in the object
	aside    time.Duration // for comparing
	before   time.Duration // of that, in tries before the one whose first byte counts
}

// equipObjects gives a thread its client and its buffers.
func (t *thread) equipObjects() (err error) {
	t.name = make([]byte, 0, 8192)
	made := map[int]*content{}
	for _, s := range t.layout.sets {
		c := made[s.Content.Compressible]
		if c == nil {
			if c, err = newContent(mix(t.layout.test.Seed), s.Content.Compressible, s3.Piece); err != nil {
				return err
			}
			made[s.Content.Compressible] = c
		}
		t.contents = append(t.contents, c)
	}
	o := &objects{client: t.layout.store.Client()}
	o.client.Stop = func() bool { return t.run.stopped.Load() || t.clock.now()-int64(lastTries) > t.run.end }
	o.body = func(offset int64, n int) []byte { return o.contents.at(o.id, offset, n) }
	if t.verifies {
		o.piece = func(offset int64, b []byte) error {
			if offset == o.from {
				o.before = o.aside
			}
			began := time.Now()
			err := o.contents.verify(b, o.id, offset, false)
			o.aside += time.Since(began)
			return err
		}
	}
	t.objects = o
	t.buffer, err = alignedBuffer(s3.Piece, s3.Piece)
	return err
}

// connecting is how many connections are made at the same time before a run.
const connecting = 64

// connect connects all threads to the object store, if there is one.
func (r *run) connect() error {
	if r.store == nil || r.test.Engine == spec.Null {
		return nil
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, connecting)
	ctx, stop := context.WithCancelCause(context.Background()) // at the first error, which is the cause
	defer stop(nil)
	for _, t := range r.threads {
		slots <- struct{}{}
		all.Go(func() {
			one, cancel := context.WithTimeout(ctx, r.patience())
			err := t.objects.client.Connect(one)
			cancel()
			if err == nil && r.sendsParts() {
				err = t.objects.client.ConnectParts(ctx, r.patience())
			}
			if err != nil {
				stop(err)
			}
			<-slots
		})
	}
	all.Wait()
	return r.storeFault(context.Cause(ctx))
}

// sendsParts reports whether operations upload objects in parts.
func (l *layout) sendsParts() bool {
	for _, s := range l.sets {
		_, kinds := l.uses(s)
		if (kinds[spec.Write] || kinds[spec.Create] || s.grows) && max(s.sizes.most, s.created.most) > l.store.PartSize {
			return true
		}
	}
	return false
}

// waitConnected waits for the start of the run, and replaces connections that the store has closed meanwhile.
func (t *thread) waitConnected(start int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(start-t.clock.now()))
	err := t.objects.client.Connect(ctx)
	if err == nil && t.run.sendsParts() {
		_ = t.objects.client.ConnectParts(ctx, promptly) // the first operation tries it again, and has the error
	}
	cancel()
	<-t.run.gate
	t.now = t.clock.now()
}

// openGate lets the threads begin at the start of the run. Not each of them waits in the system, where it would keep a
// processor from those that are to be connected.
func (r *run) openGate() {
	r.clock.untilParked(r.start)
	close(r.gate)
}

func (r *run) disconnect() {
	for _, t := range r.threads {
		t.objects.client.Close()
		for _, c := range t.contents {
			c.free()
		}
	}
}

// request runs an operation on an object store; n is how many bytes were read or written.
func (t *thread) request(o *operation) (n int64, errno syscall.Errno) {
	switch o.kind {
	case spec.Read:
		return t.readObject(o)
	case spec.Write:
		return t.writeObject(o)
	case spec.Create:
		return t.create(o)
	case spec.Stat:
		_, errno := t.object(o)
		if errno == 0 {
			_, err := t.objects.client.Head(string(t.objects.key))
			errno = t.remote(err)
		}
		return 0, errno
	case spec.Delete:
		return 0, t.deleteObject(o)
	}
	return 0, t.listObjects(o)
}

// countRequests counts the retries of an operation and, if it has read an object, records the time to the first byte.
func (t *thread) countRequests(c *cell, read bool) {
	client := t.objects.client
	c.retries += client.Retried
	client.Retried = 0
	if read {
		c.firstByte().Record(int64(client.First - t.objects.before))
	}
}

// remote returns the number that stands for an error of the object store, and notes the error.
func (t *thread) remote(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	t.objects.err = err
	return errRemote
}

// object chooses the object of an operation, whose key is in t.objects.key then.
func (t *thread) object(o *operation) (f target, errno syscall.Errno) {
	file, _ := t.pick(o)
	return t.find(o, file)
}

func (t *thread) find(o *operation, file uint64) (f target, errno syscall.Errno) {
	leaf := uint64(0)
	if o.set.changing {
		if errno := t.ensure(o); errno != 0 {
			return f, errno
		}
		leaf, f.content, f.size = t.address(o.setAt, t.number(o))
	} else {
		leaf, f.content, f.size = file%o.set.leaves, o.set.content(file), o.set.size(file)
		t.name = append(appendFile(t.name[:0], file), 0)
	}
	t.toKey(o.set, leaf)
	return f, 0
}

// toKey makes the key of what is named by t.name, in a leaf of a set.
func (t *thread) toKey(s *set, leaf uint64) {
	k := append(t.objects.key[:0], t.layout.base...)
	k = append(s.appendLeaf(k, leaf), '/')
	t.objects.key = append(k, bytes.TrimSuffix(t.name, []byte{0})...)
}

func (t *thread) readObject(o *operation) (int64, syscall.Errno) {
	file, spot := t.pick(o)
	f, errno := t.find(o, file)
	if errno != 0 {
		return 0, errno
	}
	offset, want, length := int64(0), f.size, int64(-1) // all of it, which an object without content needs
	if !o.whole && f.size > 0 {
		offset, want = t.place(o, spot, f.size)
		length = want
	}
	c := t.objects
	c.contents, c.id, c.from, c.aside, c.before = t.contents[o.setAt], f.content, offset, 0, 0
	n, err := c.client.Get(string(c.key), offset, length, want, t.buffer, c.piece)
	t.begin += int64(c.aside)
	if e := (*s3.Error)(nil); err != nil && !errors.As(err, &e) { // of piece
		t.check.err = err
		return want, errVerify
	}
	return max(n, want), t.remote(err)
}

func (t *thread) writeObject(o *operation) (int64, syscall.Errno) {
	f, errno := t.object(o)
	if errno != 0 {
		return 0, errno
	}
	id := f.content
	if !t.verifies {
		t.fresh++
		id = blend(f.content, t.fresh)
	}
	return f.size, t.put(o, id, f.size)
}

// put uploads the object whose key is in t.objects.key.
func (t *thread) put(o *operation, id uint64, size int64) syscall.Errno {
	c := t.objects
	c.contents, c.id = t.contents[o.setAt], id
	err := c.client.Put(string(c.key), size, c.body)
	t.begin += int64(c.client.Aside)
	return t.remote(err)
}

// makeObject creates the next object of the thread. One that failed is the next one again: nobody knows whether
// it is there.
func (t *thread) makeObject(o *operation, size int64) syscall.Errno {
	p := &t.pools[o.setAt]
	leaf, content, _ := t.address(o.setAt, p.tail)
	t.toKey(o.set, leaf)
	errno := t.put(o, content, size)
	if errno == 0 {
		p.tail++
		t.limits.files--
		t.limits.bytes -= size
	}
	return errno
}

func (t *thread) deleteObject(o *operation) syscall.Errno {
	if errno := t.ensure(o); errno != 0 {
		return errno
	}
	p := &t.pools[o.setAt]
	leaf, _, size := t.address(o.setAt, p.head)
	t.toKey(o.set, leaf)
	errno := t.remote(t.objects.client.Delete(string(t.objects.key)))
	p.head++ // an object that cannot be deleted is not tried again
	if errno == 0 {
		t.limits.files++
		t.limits.bytes += size
	}
	return errno
}

// listObjects lists all objects of a folder, page by page.
func (t *thread) listObjects(o *operation) syscall.Errno {
	leaf := uint64(0)
	if o.set.leaves > 1 {
		leaf = t.leafOf(o)
	}
	t.name = t.name[:0]
	t.toKey(o.set, leaf)
	prefix := string(t.objects.key)
	var walk s3.Walk
	for next := ""; ; {
		p, err := t.objects.client.List(prefix, next, true, t.layout.test.S3.Page)
		if err == nil && p.Next != "" {
			err = walk.On(t.objects.client, p.Next)
		}
		if err != nil || p.Next == "" {
			return t.remote(err)
		}
		next = p.Next
	}
}
