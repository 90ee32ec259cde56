package controller

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/sleep"
)

const (
	maxResult  = 1 << 30 // bytes of the result of an agent
	fetchPause = 200 * time.Millisecond
)

// A fetch gets the result of one agent, in as many calls as it takes.
type fetch struct {
	client  loadpb.AgentServiceClient
	runID   string
	sha256  []byte        // what the result has to have; nil if that is not known
	silence time.Duration // without any data, until a call is given up
	reach   time.Duration // without reaching the agent, until the fetch is given up
	ending  time.Duration // in which a run that the agent has not ended yet is to end; 0: it has ended
}

// run returns the records and the result that is the last of them.
func (f fetch) run(ctx context.Context) ([]byte, *loadpb.Result, error) {
	var b []byte
	begun, reached := time.Now(), time.Now()
	for {
		had := len(b)
		err := f.call(ctx, &b)
		code := status.Code(err)
		switch {
		case err == nil:
			return f.check(b)
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case code == codes.NotFound && time.Since(begun) < f.ending:
			reached = time.Now()
		case code == codes.Unavailable || code == codes.Canceled || code == codes.DeadlineExceeded:
			if len(b) > had {
				reached = time.Now()
			}
		default:
			return nil, nil, plain(err)
		}
		if time.Since(reached) > f.reach || !sleep.For(ctx, fetchPause) {
			return nil, nil, plain(err)
		}
	}
}

// call appends the rest of the result to b, or as much as comes.
func (f fetch) call(ctx context.Context, b *[]byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(f.silence, cancel)
	defer silent.Stop()
	stream, err := f.client.FetchResult(ctx, &loadpb.FetchResultRequest{RunId: f.runID, Offset: uint64(len(*b))})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(*b)+len(part.GetData()) > maxResult:
			return status.Errorf(codes.ResourceExhausted, "the result is larger than %d bytes", maxResult)
		}
		silent.Reset(f.silence)
		*b = append(*b, part.GetData()...)
	}
}

// check returns the result if it is whole and of the run.
func (f fetch) check(b []byte) ([]byte, *loadpb.Result, error) {
	if sum := sha256.Sum256(b); f.sha256 != nil && !bytes.Equal(sum[:], f.sha256) {
		return nil, nil, fmt.Errorf("the result has the hash %x, and not %x as announced", sum, f.sha256)
	}
	r := bytes.NewReader(b)
	var last loadpb.ResultRecord
	for r.Len() > 0 {
		last.Reset()
		if err := protodelim.UnmarshalFrom(r, &last); err != nil {
			return nil, nil, fmt.Errorf("the result is not well-formed: %w", err)
		}
	}
	switch result := last.GetResult(); {
	case result == nil:
		return nil, nil, errors.New("the result has no end")
	case result.GetRunId() != f.runID:
		return nil, nil, fmt.Errorf("the result is of the run %q", result.GetRunId())
	default:
		return b, result, nil
	}
}

// plain returns an error of gRPC without its frame.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		text := s.Message()
		if _, dialing, ok := strings.Cut(text, "Error while dialing: "); ok {
			text = strings.TrimSuffix(dialing, `"`)
		}
		return errors.New(text)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the agent has closed the stream")
	}
	return err
}
