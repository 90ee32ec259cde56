//go:build linux

package workload

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/s3"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

const (
	slice = 1 << 20 // written at once
	batch = 1024    // files that are noted in the manifest at once
	// What is written without a sync: a long one would look like a preparation that does not go on.
	unsynced = 64 << 20
	// How long files are gathered for a batch: those of a shared set are looked for first, in an object store by a request each.
	gathering = 200 * time.Millisecond
)

// prepared is what is ready for a run.
type prepared struct {
	*layout
	wanted need
	dir    *folder // the run's; nil with an object store
	align  int     // of direct I/O; 0 without it
}

// prepare creates what the layout needs and calls progress each second. It returns as soon as ctx ends.
func (l *layout) prepare(ctx context.Context, progress func(*loadpb.Progress)) (*prepared, *loadpb.PrepareStats, error) {
	if err := l.buffers(); err != nil {
		return nil, nil, err
	}
	wanted, err := l.need(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := wanted.check(l.job); err != nil {
		return nil, nil, err
	}
	p := &preparation{layout: l, wanted: wanted, began: time.Now(), latencies: stats.Table{}}
	if err := p.open(); err != nil {
		return nil, nil, err
	}
	defer p.manifest.close()
	if p.client != nil {
		defer p.client.Close()
	}
	stop := each(time.Second, func() { progress(p.progress()) })
	err = p.create(ctx, progress)
	stop()
	if err != nil {
		p.dir.close()
		return nil, nil, err
	}
	return &prepared{l, wanted, p.dir, p.align}, &loadpb.PrepareStats{
		Seconds: time.Since(p.began).Seconds(), Files: p.files.Load(), Folders: p.folders, Bytes: p.bytes.Load(),
		KeptFiles: p.kept, Operations: p.latencies.Proto(),
	}, nil
}

// A preparation is what is being prepared.
type preparation struct {
	*layout
	wanted   need
	began    time.Time
	dir      *folder
	align    int
	manifest *manifest
	client   *s3.Client // of an object store
	folders  uint64
	kept     uint64

	files, bytes atomic.Uint64 // done
	passed       atomic.Uint64 // folders, made or there
	small        atomic.Uint64 // bytes of files without a sync of their own

	mu        sync.Mutex
	latencies stats.Table
}

// open makes the folders of the run, after it has seen whether there is room.
func (p *preparation) open() error {
	if p.store != nil {
		return p.openBucket()
	}
	root, err := openRoot(p.job.Root)
	if err != nil {
		return err
	}
	defer root.close()
	if err = p.openIn(root); err != nil {
		root.unmake(p.target)
	}
	return err
}

func (p *preparation) openIn(root *folder) error {
	var v terrain
	err := root.makeOpen(p.target, func(target *folder) (err error) {
		v, err = survey(target, false)
		return err
	})
	if err != nil {
		return err
	}
	if err := v.room(p.wanted, filepath.Join(root.name, p.target)); err != nil {
		return err
	}
	if p.test.Direct {
		if err := v.direct(); err != nil {
			return err
		}
		p.align = v.align
	}
	device, err := root.device()
	if err != nil {
		return err
	}
	if p.manifest, err = createManifest(p.layout, device); err != nil {
		return err
	}
	if err := p.openRun(root); err != nil {
		p.manifest.close()
		return err
	}
	return nil
}

// makeRun makes the folder of the run and opens it; it reports whether there was none. Another agent
// of the run that ends meanwhile may delete the target, which is empty.
func (p *preparation) makeRun(root *folder) (made bool, err error) {
	err = root.makeOpen(p.target, func(target *folder) (err error) {
		if made, err = target.mkdir(p.run); err == nil {
			p.dir, err = target.open(p.run)
		}
		return err
	})
	return made, err
}

// openRun makes the folder of the run, and that of the agent, which must be new.
func (p *preparation) openRun(root *folder) error {
	p.manifest.add('d', ".")
	if err := p.manifest.sync(); err != nil {
		return err
	}
	made, err := p.makeRun(root)
	if err != nil {
		return err
	}
	if made {
		p.folders++
	}
	p.passed.Add(1)
	if p.prefix == "" {
		return nil
	}
	agent := filepath.Clean(p.prefix)
	if _, there, err := p.dir.has(agent); err != nil || there {
		if err == nil {
			err = &fault{loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED, filepath.Join(p.dir.name, agent), "every run needs an id of its own", fmt.Errorf("the folder %s exists already", filepath.Join(p.dir.name, agent))}
		}
		p.dir.close()
		return err
	}
	return p.mkdirs([]string{agent})
}

// mkdirs notes folders and makes those that are not there.
func (p *preparation) mkdirs(names []string) error {
	for _, name := range names {
		p.manifest.add('d', name)
	}
	if err := p.manifest.sync(); err != nil {
		return err
	}
	for _, name := range names {
		made, err := p.dir.mkdir(name)
		if err != nil {
			return err
		}
		if made {
			p.folders++
		}
		p.passed.Add(1)
	}
	return nil
}

// create creates everything. It reports progress as each set begins, too.
func (p *preparation) create(ctx context.Context, progress func(*loadpb.Progress)) error {
	for _, s := range p.sets {
		if err := p.createFolders(ctx, s); err != nil {
			return err
		}
	}
	for _, s := range p.sets {
		progress(p.progress())
		if err := p.createFiles(ctx, s); err != nil {
			return err
		}
	}
	// What is in the page cache alone would be written during the run.
	if p.files.Load() > 0 && p.store == nil {
		if err := unix.Syncfs(p.dir.fd); err != nil {
			return pathFault("sync", p.dir.name, err)
		}
	}
	return ctx.Err()
}

func (p *preparation) createFolders(ctx context.Context, s *set) error {
	names := make([]string, 0, batch)
	for name := range s.folders {
		if p.store != nil {
			break
		}
		if names = append(names, name); len(names) < batch {
			continue
		}
		if err := p.mkdirs(names); err != nil {
			return err
		}
		if names = names[:0]; ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if s.grows {
		for leaf := range s.leaves {
			p.manifest.add('m', string(s.appendLeaf(nil, leaf)))
			if leaf%batch < batch-1 {
				continue
			}
			if err := p.manifest.sync(); err != nil {
				return err
			}
		}
	}
	return p.mkdirs(names)
}

// createFiles notes the files of a set in batches, each of which several goroutines create.
func (p *preparation) createFiles(ctx context.Context, s *set) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan uint64, batch)
	var writers sync.WaitGroup
	for range min(max(p.test.Jobs, 2), 16) {
		writers.Go(func() {
			if err := p.write(ctx, s, work); err != nil {
				cancel(err)
			}
		})
	}
	err := p.feed(ctx, s, work)
	close(work)
	writers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (p *preparation) feed(ctx context.Context, s *set, work chan<- uint64) error {
	files, since := make([]uint64, 0, batch), time.Now()
	flush := func() error {
		if err := p.manifest.sync(); err != nil {
			return err
		}
		for _, f := range files {
			select {
			case work <- f:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		files, since = files[:0], time.Now()
		return nil
	}
	for f := range p.layout.files(s) {
		name := s.path(f)
		if p.test.Shared {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if size, there, err := p.has(name); err != nil {
				return err
			} else if there && size != s.size(f) {
				whole := p.whole(name)
				return &fault{loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED, whole, "every run needs an id of its own", fmt.Errorf("the file %s exists already, with %d bytes in place of %d", whole, size, s.size(f))}
			} else if there {
				p.kept++
				p.files.Add(1)
				continue
			}
		}
		p.manifest.add('f', name)
		if files = append(files, f); len(files) == batch || p.test.Shared && time.Since(since) > gathering {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// write creates the files that work names.
func (p *preparation) write(ctx context.Context, s *set, work <-chan uint64) error {
	c, err := newContent(mix(p.test.Seed), s.Content.Compressible, slice)
	if err != nil {
		return err
	}
	defer c.free()
	latencies := stats.Table{}
	writer := p.writeFile
	if p.store != nil {
		client := p.store.Within(p.patience()).Client()
		defer client.Close()
		writer = p.objectWriter(client)
	}
	for file := range work {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := writer(ctx, s, file, c, latencies)
		if err != nil {
			return err
		}
		p.files.Add(1)
		if n >= slice || p.store != nil {
			continue
		}
		if err := p.syncSmall(n + page); err != nil { // its blocks, and its entry in the folder
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latencies.Merge(latencies)
	return nil
}

// syncSmall syncs the file system now and then.
func (p *preparation) syncSmall(bytes uint64) error {
	if n := p.small.Add(bytes); n/unsynced == (n-bytes)/unsynced {
		return nil
	}
	if err := unix.Syncfs(p.dir.fd); err != nil {
		return pathFault("sync", p.dir.name, err)
	}
	return nil
}

func (p *preparation) writeFile(ctx context.Context, s *set, file uint64, c *content, latencies stats.Table) (written uint64, err error) {
	name, size := s.path(file), s.size(file)
	whole := filepath.Join(p.dir.name, name)
	fd, err := openBeneath(p.dir.fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, fileMode)
	if err != nil {
		return 0, pathFault("create", whole, err)
	}
	defer unix.Close(fd)
	switch s.Blocks {
	case "sparse":
		err = unix.Ftruncate(fd, size)
	case "fallocate":
		if size > 0 {
			err = unix.Fallocate(fd, 0, 0, size)
		}
	default:
		return p.fill(ctx, s, fd, whole, file, size, c, latencies)
	}
	if err != nil {
		return 0, pathFault("allocate", whole, err)
	}
	return 0, nil
}

func (p *preparation) fill(ctx context.Context, s *set, fd int, whole string, file uint64, size int64, c *content, latencies stats.Table) (written uint64, err error) {
	synced := int64(0)
	for at := int64(0); at < size && ctx.Err() == nil; {
		began := time.Now()
		n, err := unix.Pwrite(fd, c.at(s.content(file), at, int(min(slice, size-at))), at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return written, pathFault("write", whole, err)
		}
		count(latencies, n, time.Since(began))
		at += int64(n)
		written += uint64(n)
		p.bytes.Add(uint64(n))
		if at-synced < unsynced && (at < size || size < slice) { // smaller files are synced together
			continue
		}
		if err := unix.Fdatasync(fd); err != nil {
			return written, pathFault("sync", whole, err)
		}
		synced = at
	}
	if p.test.Direct {
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) // the cache is not to be written back during the run
	}
	return written, nil
}

// count counts a write.
func count(t stats.Table, n int, took time.Duration) {
	key := stats.Key{Operation: "write", SizeClass: sizeClasses[classOfSize(int64(n))]}
	c := t[key]
	if c == nil {
		c = &stats.Counter{}
		t[key] = c
	}
	c.Operations++
	c.Bytes += uint64(n)
	c.Service.Record(int64(took))
}

func (p *preparation) progress() *loadpb.Progress {
	out := &loadpb.Progress{Phase: "prepare", Done: p.files.Load() + p.passed.Load(), Total: p.wanted.files + p.wanted.folders, Bytes: p.bytes.Load()}
	if took := time.Since(p.began).Seconds(); took > 0 {
		out.BytesPerSecond = float64(out.Bytes) / took
	}
	return out
}
