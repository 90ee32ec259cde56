package controller

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/sleep"
)

const (
	// maxIntervals is how many intervals an agent may send. A run by count is ended by the agent when
	// it has more than spec.MaxIntervals, and some more come until its engine has ended.
	maxIntervals = spec.MaxIntervals + 1000

	fetchPause = 200 * time.Millisecond
)

// A fetch gets the result of one agent into a file, in as many calls as it takes.
type fetch struct {
	client  loadpb.AgentServiceClient
	runID   string
	path    string        // of the file, which is there afterwards unless there is an error
	sha256  []byte        // what the result has to have; nil if that is not known
	silence time.Duration // without any data, until a call is given up
	reach   time.Duration // without reaching the agent, until the fetch is given up
	ending  time.Duration // in which a run that the agent has not ended yet is to end; 0: it has ended
}

// received is what has come of a result.
type received struct {
	file *os.File
	sum  hash.Hash
	size int64
}

func (r *received) add(b []byte) error {
	if _, err := r.file.Write(b); err != nil {
		return localError{err}
	}
	r.sum.Write(b)
	r.size += int64(len(b))
	return nil
}

// A localError is one of this machine, and not of the agent.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// run returns the result that is the last of the records.
func (f fetch) run(ctx context.Context) (*loadpb.Result, error) {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, localError{err}
	}
	r := &received{file: file, sum: sha256.New()}
	var result *loadpb.Result
	if err = f.receive(ctx, r); err == nil {
		result, err = f.check(r)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(f.path))
	}
	return result, nil
}

// receive receives all of a result.
func (f fetch) receive(ctx context.Context, r *received) error {
	begun, reached := time.Now(), time.Now()
	for {
		had := r.size
		err := f.call(ctx, r)
		code := status.Code(err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case code == codes.NotFound && time.Since(begun) < f.ending:
			reached = time.Now()
		case code == codes.Unavailable || code == codes.Canceled || code == codes.DeadlineExceeded:
			if r.size > had {
				reached = time.Now()
			}
		default:
			return plain(err)
		}
		if time.Since(reached) > f.reach || !sleep.For(ctx, fetchPause) {
			return plain(err)
		}
	}
}

// call receives the rest of the result, or as much as comes.
func (f fetch) call(ctx context.Context, r *received) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := status.Errorf(codes.DeadlineExceeded, "nothing of the result has come for %s", f.silence)
	silent := time.AfterFunc(f.silence, func() { cancel(silence) })
	defer silent.Stop()
	stream, err := f.client.FetchResult(ctx, &loadpb.FetchResultRequest{RunId: f.runID, Offset: uint64(r.size)})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && context.Cause(ctx) == silence:
			return silence
		case err != nil:
			return err
		case r.size+int64(len(part.GetData())) > spec.MaxResult:
			return status.Errorf(codes.ResourceExhausted, "the result is larger than %d bytes", spec.MaxResult)
		}
		silent.Reset(f.silence)
		if err := r.add(part.GetData()); err != nil {
			return err
		}
	}
}

// check returns the result if it is whole and of the run.
func (f fetch) check(r *received) (*loadpb.Result, error) {
	if sum := r.sum.Sum(nil); f.sha256 != nil && !bytes.Equal(sum, f.sha256) {
		return nil, fmt.Errorf("the result has the hash %x, and not %x as announced", sum, f.sha256)
	}
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return nil, localError{err}
	}
	in := bufio.NewReader(r.file)
	var result *loadpb.Result
	for n := 0; ; n++ {
		var record loadpb.ResultRecord
		err := protodelim.UnmarshalOptions{MaxSize: report.MaxRecord}.UnmarshalFrom(in, &record)
		switch {
		case err == io.EOF:
			return result, f.belongs(result)
		case err != nil:
			return nil, fmt.Errorf("the result is not well-formed: %w", err)
		case n > maxIntervals:
			return nil, fmt.Errorf("the result has more than %d intervals", maxIntervals)
		}
		result = record.GetResult()
	}
}

// belongs returns why a result, nil if there is none, is not that of the run.
func (f fetch) belongs(result *loadpb.Result) error {
	switch {
	case result == nil:
		return errors.New("the result has no end")
	case result.GetRunId() != f.runID:
		return fmt.Errorf("the result is of the run %q", result.GetRunId())
	}
	return nil
}

// plain returns an error of gRPC without its frame.
func plain(err error) error {
	var local localError
	if errors.As(err, &local) {
		return err
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		text := s.Message()
		if _, dialing, ok := strings.Cut(text, "Error while dialing: "); ok {
			text = strings.TrimSuffix(dialing, `"`)
		}
		if _, failed, ok := strings.Cut(text, "authentication handshake failed: "); ok {
			text = strings.TrimSuffix(failed, `"`)
		}
		if alert, ok := strings.CutPrefix(text, "remote error: tls: "); ok {
			text = "it refuses the connection: " + alert
		}
		if text == "error reading from server: EOF" {
			text = "the agent has closed it, or has died"
		}
		return errors.New(text)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the agent has closed the stream")
	}
	return err
}

// absent returns a hint for an error of dialing an address at which nobody listens, else nothing.
func absent(address string, err error) string {
	for _, text := range []string{"connect: connection refused", "connect: no such file or directory"} {
		switch {
		case !strings.HasSuffix(err.Error(), text):
		case onLoopback(address):
			return "start one with: pawl agent --root DIR --listen " + address
		default:
			return "is an agent running there, and does it listen on that address?"
		}
	}
	return ""
}
