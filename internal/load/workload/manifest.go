//go:build linux

package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A manifest is a file of lines that only grows. Its first line is a manifestHead in JSON; each of
// the others begins with what is created: "d" a folder, "f" a file, and "m" whatever operations of
// the agent make in a folder. Paths are relative to the folder of the run. A line is on the disk
// before the thing is made; a last line without its end stands for nothing.
type manifest struct {
	file    *os.File
	pending []byte
}

type manifestHead struct {
	RunID      string `json:"run_id"`
	Root       string `json:"root"`
	Target     string `json:"target"`
	AgentIndex int    `json:"agent_index"`
	Device     uint64 `json:"device"` // of the root
}

// createManifest creates the manifest of a job. It is an error if there is one, whose things would be forgotten.
func createManifest(l *layout, device uint64) (*manifest, error) {
	f, err := os.OpenFile(l.job.Manifest, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, fileMode)
	if err != nil {
		return nil, fmt.Errorf("create the manifest: %w", err)
	}
	head, err := json.Marshal(manifestHead{l.run, l.job.Root, l.target, l.job.AgentIndex, device})
	if err != nil {
		return nil, fmt.Errorf("create the manifest: %w", err)
	}
	m := &manifest{file: f, pending: append(head, '\n')}
	return m, errors.Join(m.sync(), syncFolder(filepath.Dir(l.job.Manifest)))
}

func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// add notes something that is to be created after the next sync.
func (m *manifest) add(kind byte, path string) {
	m.pending = append(append(append(m.pending, kind, ' '), path...), '\n')
}

// sync writes what was noted to the disk.
func (m *manifest) sync() error {
	if len(m.pending) == 0 {
		return nil
	}
	if _, err := m.file.Write(m.pending); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	m.pending = m.pending[:0]
	if err := m.file.Sync(); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return nil
}

func (m *manifest) close() { _ = m.file.Close() } // synced before

// readManifest calls f with each line of a manifest. Without a manifest nothing was created: ok is false.
func readManifest(name string, head func(manifestHead) error, f func(kind byte, path string) error) (ok bool, err error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the manifest: %w", err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	for n := 0; ; n++ {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return n > 0, nil // an incomplete line stands for nothing
		}
		if err != nil {
			return false, fmt.Errorf("read the manifest: %w", err)
		}
		if err := manifestLine(n, strings.TrimSuffix(line, "\n"), head, f); err != nil {
			return false, err
		}
	}
}

func manifestLine(n int, line string, head func(manifestHead) error, f func(kind byte, path string) error) error {
	if n == 0 {
		var h manifestHead
		if err := json.Unmarshal([]byte(line), &h); err != nil {
			return fmt.Errorf("read the manifest: %w", err)
		}
		return head(h)
	}
	if len(line) < 3 || line[1] != ' ' || !filepath.IsLocal(line[2:]) {
		return fmt.Errorf("the manifest has a line that no engine has written: %q", line)
	}
	return f(line[0], line[2:])
}

// readBackwards calls f with each line of a manifest but the first, the last one first, so that no more than a
// part of it is in memory.
func readBackwards(name string, f func(kind byte, path string) error) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	defer file.Close()
	at, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	var rest []byte   // of a line whose beginning is before at
	complete := false // the last line may have no end
	for at > 0 {
		part := make([]byte, min(at, 1<<20), min(at, 1<<20)+int64(len(rest)))
		at -= int64(len(part))
		if _, err := file.ReadAt(part, at); err != nil {
			return fmt.Errorf("read the manifest: %w", err)
		}
		rest = append(part, rest...)
		for i := bytes.LastIndexByte(rest, '\n'); i >= 0; i = bytes.LastIndexByte(rest, '\n') {
			line := string(rest[i+1:])
			if rest = rest[:i]; !complete {
				complete = true
				continue
			}
			if err := manifestLine(1, line, nil, f); err != nil {
				return err
			}
		}
	}
	return nil
}
