package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	vocabulary "github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/workflow"
)

// frontWorkflow is a workflow of one step, which no worker runs.
const frontWorkflow = "name: front\nsteps:\n  - {id: step1, handler: noop}\n"

// register registers the workflow. That it is registered already is no error.
func register(ctx context.Context, c *client.Client) error {
	def, err := workflow.Parse("front", []byte(frontWorkflow))
	if err == nil {
		_, _, err = c.Workflows.Register(ctx, def, "", vocabulary.Change{Actor: "bench"})
	}
	return err
}

// openServer starts "pawl server" on a database.
func openServer(ctx context.Context, p programs, dir, url string) (*front, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s, err := p.start(ctx, dir, port, "/readyz", []string{"XDG_STATE_HOME=" + dir}, "pawl", "server", "--database", url, "--listen", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	c, err := client.Open(ctx, s.url, client.Config{})
	if err == nil {
		err = errors.Join(register(ctx, c), c.Close())
	}
	if err != nil {
		return nil, errors.Join(err, s.kill())
	}
	return &front{pid: s.cmd.Process.Pid, close: s.kill,
		submit: func(ctx context.Context) (string, error) {
			var job struct{ ID string }
			err := s.call(ctx, http.MethodPost, "/api/jobs", `{"workflow":"front"}`, &job)
			return job.ID, err
		},
		read: func(ctx context.Context, id string) error {
			return s.call(ctx, http.MethodGet, "/api/jobs/"+id, "", nil)
		},
	}, nil
}

// openEngine runs an engine in this process, which does the same without HTTP.
func openEngine(ctx context.Context, url string) (*front, error) {
	c, err := local.Open(ctx, url, local.Config{})
	if err != nil {
		return nil, err
	}
	if err := register(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &front{close: c.Close,
		submit: func(ctx context.Context) (string, error) {
			done, err := c.Jobs.SubmitAll(ctx, client.Submission{Name: "front", Actor: "bench"})
			if err != nil {
				return "", err
			}
			return done[0].ID.Public(vocabulary.JobPrefix), done[0].Err
		},
		read: func(ctx context.Context, text string) error {
			id, err := vocabulary.ParseID(vocabulary.JobPrefix, text)
			if err == nil {
				_, err = c.Jobs.Get(ctx, id)
			}
			return err
		},
	}, nil
}

// temporalWorkflows is the path of workflow executions in Temporal's HTTP API.
const temporalWorkflows = "/api/v1/namespaces/default/workflows"

// openTemporal starts Temporal's server for development on a new SQLite file: killed and started
// again on the same one, it sometimes knows its namespace no more. It syncs every commit: SQLite does
// so unless it is told otherwise.
func openTemporal(ctx context.Context, p programs, dir string, args ...string) (_ *front, err error) {
	if dir, err = os.MkdirTemp(dir, "temporal-"); err != nil {
		return nil, err
	}
	var ports [2]string
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	args = append([]string{"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--db-filename", filepath.Join(dir, "temporal.db"), "--port", ports[0], "--http-port", ports[1]}, args...)
	s, err := p.start(ctx, dir, ports[1], "/api/v1/namespaces/default", []string{"TEMPORAL_VERSION_CHECK_DISABLED=1"}, "temporal", args...)
	if err != nil {
		return nil, err
	}
	var n atomic.Int64
	return &front{pid: s.cmd.Process.Pid,
		close: func() error { return errors.Join(s.kill(), os.RemoveAll(dir)) },
		submit: func(ctx context.Context) (string, error) {
			id := fmt.Sprintf("front-%d", n.Add(1))
			return id, s.call(ctx, http.MethodPost, temporalWorkflows+"/"+id, `{"workflowType":{"name":"front"},"taskQueue":{"name":"nobody"}}`, nil)
		},
		read: func(ctx context.Context, id string) error {
			return s.call(ctx, http.MethodGet, temporalWorkflows+"/"+id, "", nil)
		},
	}, nil
}

// openRiverUI starts River UI on a PostgreSQL database. It takes no jobs, so they are inserted.
func openRiverUI(ctx context.Context, p programs, dir, url string) (*front, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r, err := openRiver(ctx, url, riverDefault)
	if err != nil {
		return nil, err
	}
	s, err := p.start(ctx, dir, port, "/api/health-checks/complete", []string{"DATABASE_URL=" + url, "RIVER_HOST=127.0.0.1", "PORT=" + port, "RIVER_LOG_LEVEL=warn"}, "riverui")
	if err != nil {
		r.pool.Close()
		return nil, err
	}
	return &front{pid: s.cmd.Process.Pid,
		close: func() error {
			r.pool.Close()
			return s.kill()
		},
		submit: func(ctx context.Context) (string, error) {
			done, err := r.client.Insert(ctx, noopArgs{Flow: r.flow.Add(1)}, nil)
			if err != nil {
				return "", err
			}
			return strconv.FormatInt(done.Job.ID, 10), nil
		},
		read: func(ctx context.Context, id string) error {
			return s.call(ctx, http.MethodGet, "/api/jobs/"+id, "", nil)
		},
	}, nil
}
