package api

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	maxLog   = 1 << 20  // bytes of a stream that are stored for a worker that cuts nothing itself
	logChunk = 64 << 10 // bytes
)

// logged is the response of append-log.
type logged struct {
	Offset    int64 `json:"offset" doc:"The end of what is stored: the offset of the next append."`
	Truncated bool  `json:"truncated,omitempty" doc:"The stream is longer than what is stored of it, 1 MiB."`
}

// A LogPlace is where bytes belong.
type LogPlace struct {
	Claim  int    `query:"claim" required:"true" minimum:"1" doc:"The claim whose output it is."`
	Stream string `query:"stream" default:"stdout" enum:"stdout,stderr,pawl" doc:"The stream."`
	Offset int64  `query:"offset" required:"true" minimum:"0" doc:"How many bytes the stream had before these."`
	Cut    bool   `query:"cut" doc:"What is missing before the offset was dropped, and does not come: the offset may be behind the end."`
}

func (s *Service) appendLog(ctx context.Context, in *struct {
	StepPath
	LogPlace
	RawBody []byte `contentType:"application/octet-stream"`
}) (*body[logged], error) {
	_, v, err := s.step(ctx, in.StepPath)
	if err != nil {
		return nil, err
	}
	if in.Claim > v.Claims {
		return nil, pawl.Errorf(pawl.Invalid, "query.claim: %d: the step has had %d claims", in.Claim, v.Claims)
	}
	id, err := pawl.ParseID(pawl.StepPrefix, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Cut {
		end, err := s.store(ctx, id.StepKey(), in.LogPlace, in.RawBody)
		return &body[logged]{logged{Offset: end}}, err
	}
	end, err := s.Engine.LogEnd(ctx, id.StepKey(), in.Claim, in.Stream)
	if err != nil {
		return nil, err
	}
	behind := in.Offset + int64(len(in.RawBody))
	switch {
	case end >= maxLog:
		return &body[logged]{logged{end, behind > end}}, nil
	case behind <= end: // it is stored already
		return &body[logged]{logged{Offset: end}}, nil
	case in.Offset != end:
		p := Problemf(SlugOffset, "the stream has %d bytes, and these begin at %d", end, in.Offset)
		p.Current = current(end)
		return nil, p
	}
	kept := in.RawBody[:min(int64(len(in.RawBody)), maxLog-end)]
	if end, err = s.store(ctx, id.StepKey(), in.LogPlace, kept); err != nil {
		return nil, err
	}
	return &body[logged]{logged{end, behind > end}}, nil
}

// store stores bytes of a log, and returns the offset behind them.
func (s *Service) store(ctx context.Context, step pawl.StepKey, at LogPlace, data []byte) (int64, error) {
	var chunks []pawl.Chunk
	now, offset := pawl.Micros(s.Now()), at.Offset
	for len(data) > 0 {
		n := min(len(data), logChunk)
		chunks = append(chunks, pawl.Chunk{StepKey: step, Claim: at.Claim, Stream: at.Stream, Offset: offset, At: now, Data: data[:n]})
		offset, data = offset+int64(n), data[n:]
		now += time.Microsecond.Microseconds()
	}
	if len(chunks) == 0 {
		return offset, nil
	}
	return offset, s.Engine.AppendLogs(ctx, chunks)
}
