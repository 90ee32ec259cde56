package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/workload"
	"github.com/pawl-dev/pawl/lifecycle"
)

// recoverTime is how long a cleanup after an agent that was killed may make no progress.
const recoverTime = 30 * time.Second

// lostMessage is why a run has ended whose agent was killed.
const lostMessage = "the agent has ended during the run"

// mend ends the runs of an agent that was killed, and cleans up after them.
func (a *Agent) mend(ctx context.Context) error {
	for _, run := range newest(a.trails(), ".jsonl") {
		if err := a.closeTrail(run); err != nil { // the trails of others are not to wait for it
			a.config.Log.Error("the trail of a run cannot be closed; the next start of the agent tries it again", "run", run, "file", filepath.Join(a.trails(), run+".jsonl"), "error", err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(a.config.StateDir, "runs"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() == nil && runPattern.MatchString(e.Name()) {
			a.recoverRun(ctx, e.Name())
		}
	}
	return nil
}

// closeTrail adds the row that a trail lacks.
func (a *Agent) closeTrail(run string) error {
	t, err := openTrail(a.trails(), run, "agent:"+a.config.ID)
	switch {
	case err != nil:
		return err
	case t.last == nil: // its first row was torn
		return os.Remove(t.path)
	case lifecycle.Agent.Ended(t.state()):
		return nil
	}
	from := t.state()
	if _, err := t.move(lifecycle.AgentConnectionLost, lostMessage, codeName(loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST), a.now()); err != nil {
		return err
	}
	a.config.Log.Error("a run was ended by the death of its agent", "run", run, "from", string(from), "to", string(t.state()))
	return nil
}

// recoverRun cleans up after a run, and stores its result if there is none. What fails is tried
// again at the next start.
func (a *Agent) recoverRun(ctx context.Context, run string) {
	log := a.config.Log.With("run", run)
	b, err := os.ReadFile(a.jobFile(run))
	if errors.Is(err, fs.ErrNotExist) { // nothing was started
		a.forget(run)
		return
	}
	var job workload.Job
	if err == nil {
		err = json.Unmarshal(b, &job)
	}
	if err != nil {
		log.Error("a run cannot be cleaned up", "error", err)
		return
	}
	t, err := openTrail(a.trails(), run, "agent:"+a.config.ID)
	if err != nil {
		log.Error("the trail of a run cannot be read", "error", err)
		return
	}
	report, err := a.cleanUp(ctx, job, t)
	if err != nil {
		log.Error("a run cannot be cleaned up; the next start of the agent tries it again", "error", err)
		return
	}
	unclean := failed(report)
	if unclean {
		log.Error("not everything could be deleted; the next start of the agent tries it again, until its job is removed", "job", a.folder(run),
			"deleted_files", report.GetDeletedFiles(), "left_files", report.GetLeftFiles(), "errors", report.GetErrors())
	} else {
		log.Info("a run was cleaned up after its agent was killed", "deleted_files", report.GetDeletedFiles(), "left_files", report.GetLeftFiles())
	}
	if err := a.storeLost(job, t, report); err != nil {
		log.Error("the result of a run cannot be kept", "error", err)
		return
	}
	if !unclean {
		a.forget(run)
	}
}

// failed reports whether a cleanup has left what it was to delete.
func failed(report *loadpb.CleanupReport) bool {
	return report.GetLeftFiles() > 0 && len(report.GetErrors()) > 0
}

// cleanUp deletes what the run has created, if its config says so.
func (a *Agent) cleanUp(ctx context.Context, job workload.Job, t *trail) (*loadpb.CleanupReport, error) {
	test, err := spec.Parse([]byte(job.Config))
	if err != nil {
		return nil, err
	}
	if !deletes(test.Cleanup, t.state()) {
		return &loadpb.CleanupReport{}, nil
	}
	e, err := a.launch(job)
	if err != nil {
		return nil, err
	}
	defer func() {
		e.stop(abortTimeout)
		go func() {
			for range e.frames() { // it ends with the engine
			}
		}()
	}()
	e.send(cleanupCommand())
	return awaitCleanup(ctx, e)
}

// awaitCleanup returns what an engine has cleaned up.
func awaitCleanup(ctx context.Context, e engine) (*loadpb.CleanupReport, error) {
	idle, done := time.NewTimer(recoverTime), uint64(0)
	defer idle.Stop()
	for {
		select {
		case f, ok := <-e.frames():
			switch {
			case !ok:
				return nil, fmt.Errorf("the engine that cleans up has ended: %s: %s", e.ending(), lastLine(e.stderr()))
			case f.GetCleaned() != nil:
				return f.GetCleaned(), nil
			case f.GetFailed() != nil:
				return nil, errors.New(f.GetFailed().GetMessage())
			case f.GetProgress().GetDone() > done:
				done = f.GetProgress().GetDone()
				idle.Reset(recoverTime)
			}
		case <-idle.C:
			return nil, fmt.Errorf("no progress for %s", recoverTime)
		case <-ctx.Done():
			return nil, errors.New("the agent is being stopped")
		}
	}
}

// storeLost ends the result of a run whose agent was killed: with what its intervals add up to, if
// the agent had not ended it yet. One that was kept for its time is not made again.
func (a *Agent) storeLost(job workload.Job, t *trail, report *loadpb.CleanupReport) error {
	if _, err := os.Stat(filepath.Join(a.results(), job.RunID)); err == nil {
		return nil // it was stored, and only the cleanup was not done
	}
	if _, err := os.Stat(filepath.Join(a.results(), job.RunID+partial)); err != nil && (t.last == nil || a.now().Sub(time.UnixMicro(t.last.At)) > keepFor) {
		return nil
	}
	r, err := a.resume(job.RunID)
	if err != nil {
		return err
	}
	if r.had.last != nil {
		_, _, err = r.publish()
		return err
	}
	last := &loadpb.Result{
		RunId: job.RunID, Status: finalStatus(t.state()), Agent: a.Info(), ConfigYaml: job.Config, Cleanup: report, Transitions: t.rows,
		Assignment: &loadpb.Assignment{AgentIndex: uint32(job.AgentIndex), AgentCount: uint32(job.AgentCount)},
		Totals:     r.had.totals.Proto(), Seconds: r.had.seconds, CpuUserSeconds: r.had.usage[0], CpuSystemSeconds: r.had.usage[1],
	}
	switch last.GetStatus() {
	case loadpb.Status_STATUS_ABORTED:
		last.AbortReason = t.last.Reason
	case loadpb.Status_STATUS_ERROR:
		last.Error = t.fault()
	}
	_, _, err = r.finish(last)
	return err
}
