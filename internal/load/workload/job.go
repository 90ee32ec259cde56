package workload

import (
	"bufio"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/load/s3"
)

// A Job is what an engine is started for: the first line that it reads, in JSON. Commands follow it.
type Job struct {
	Config     string `json:"config"` // the file, in YAML
	RunID      string `json:"run_id"`
	AgentIndex int    `json:"agent_index"` // from 0
	AgentCount int    `json:"agent_count"` // 1 or more
	// Root is the absolute path of the folder that confines everything the run does; with the engine s3, the
	// URL of the part of a bucket.
	Root string `json:"root"`
	// What the run may use of the root; 0 for no limit.
	LimitBytes uint64 `json:"limit_bytes"`
	LimitFiles uint64 `json:"limit_files"`
	// Manifest is the absolute path of the file, outside of the root, that lists what the run has
	// created. The engine creates it, and cleans up by it.
	Manifest string `json:"manifest"`

	// Access is what the engine s3 reaches the object store with, which no file has. nil: nothing.
	Access Access `json:"-"`
}

// An Access returns the credentials of the agent for object stores, and the certificates in PEM that
// those of stores are signed by; nil: those of the system.
type Access func() (c s3.Credentials, ca []byte, err error)

// maxJob is more than a config of 1 MiB takes in JSON.
const maxJob = 8 << 20

// readJob reads the first line of an engine's input.
func readJob(in *bufio.Reader) (Job, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); err == nil {
			break
		}
		if err != bufio.ErrBufferFull || len(line) > maxJob {
			return Job{}, fmt.Errorf("read the job: %w", err)
		}
	}
	var j Job
	if err := json.Unmarshal(line, &j); err != nil {
		return Job{}, fmt.Errorf("read the job: %w", err)
	}
	return j, nil
}
