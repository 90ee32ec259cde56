package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// maxPart is how much of a result one message has, in bytes.
const maxPart = 1 << 20

// A service is what gRPC serves of an agent.
type service struct {
	loadpb.UnimplementedAgentServiceServer
	agent *Agent
}

// ExecuteWorkload implements loadpb.AgentServiceServer.
func (s *service) ExecuteWorkload(st grpc.BidiStreamingServer[loadpb.ControlMessage, loadpb.LiveStats]) error {
	actor, err := s.agent.actor(st.Context())
	if err != nil {
		return err
	}
	s.agent.execute(st, actor)
	return nil
}

// FetchResult implements loadpb.AgentServiceServer.
func (s *service) FetchResult(q *loadpb.FetchResultRequest, to grpc.ServerStreamingServer[loadpb.FetchResultResponse]) error {
	f, err := s.agent.open(q.GetRunId())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if q.GetOffset() > uint64(info.Size()) {
		return status.Errorf(codes.OutOfRange, "offset %d: the result has %d bytes", q.GetOffset(), info.Size())
	}
	part, at := make([]byte, maxPart), int64(q.GetOffset())
	for {
		n, err := f.ReadAt(part, at)
		if n > 0 {
			if err := to.Send(&loadpb.FetchResultResponse{Data: part[:n]}); err != nil {
				return err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
}

// open opens the result of a run.
func (a *Agent) open(run string) (*os.File, error) {
	if !runPattern.MatchString(run) {
		return nil, status.Errorf(codes.InvalidArgument, "run_id %.80q: want 1 to 64 letters, digits, '_' and '-', a letter or digit first", run)
	}
	f, err := os.Open(filepath.Join(a.results(), run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "run %s: %v", run, errNoResult)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return f, nil
}

// ValidateWorkload implements loadpb.AgentServiceServer.
func (s *service) ValidateWorkload(ctx context.Context, q *loadpb.ValidateWorkloadRequest) (*loadpb.ValidateWorkloadResponse, error) {
	r := &loadpb.ValidateWorkloadResponse{Agent: s.agent.Info()}
	_, job, fault := s.agent.examine("validation", q.GetConfigYaml(), q.GetAssignment())
	if fault != nil {
		r.Errors = []*loadpb.Error{fault}
		return r, nil
	}
	if s.agent.config.Plan == nil {
		return r, nil
	}
	r.Plan, r.Errors = s.agent.config.Plan(ctx, job)
	return r, nil
}

// GetAgent implements loadpb.AgentServiceServer.
func (s *service) GetAgent(context.Context, *loadpb.GetAgentRequest) (*loadpb.GetAgentResponse, error) {
	return &loadpb.GetAgentResponse{Agent: s.agent.Info(), Run: s.agent.shown(), KeptRunIds: s.agent.kept()}, nil
}

// publish shows the run as it is (L11).
func (s *session) publish() {
	if s.id == "" {
		return
	}
	v := &loadpb.RunView{RunId: s.id, State: string(s.state), SessionEpoch: s.epoch, Sequence: s.sequence,
		AbortReason: s.reason, Error: s.failure,
		Transitions: s.trail.rows[:len(s.trail.rows):len(s.trail.rows)], EngineStderr: s.stderr}
	if s.engine != nil && !s.cleaner {
		v.EngineStderr = s.engine.stderr()
	}
	s.a.show(s, v)
}

// show shows a run, unless a later one has begun.
func (a *Agent) show(s *session, v *loadpb.RunView) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newest == s {
		a.view, a.viewed = v, s
	}
}

// shown returns the run that is on, or the last one; nil if there was none.
func (a *Agent) shown() *loadpb.RunView {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.view == nil {
		return nil
	}
	v := proto.Clone(a.view).(*loadpb.RunView)
	v.LastMessageReceivedNs, v.LastStatsSentNs = a.viewed.heardNs.Load(), a.viewed.sentNs.Load()
	return v
}
