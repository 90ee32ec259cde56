package controller

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// Validate returns what the run of a config would create on an agent, which is the one of that
// index of so many, and why it could not be run there. Nothing is created.
func Validate(ctx context.Context, t Target, config []byte, index, count int) (*loadpb.ValidateWorkloadResponse, error) {
	conn, err := grpc.NewClient(endpoint(t.Address), append([]grpc.DialOption{grpc.WithNoProxy()}, t.Options...)...)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("agent %q: %v", t.Address, err), Err: err}
	}
	defer conn.Close()
	response, err := loadpb.NewAgentServiceClient(conn).ValidateWorkload(ctx, &loadpb.ValidateWorkloadRequest{
		ConfigYaml: string(config), Assignment: &loadpb.Assignment{AgentIndex: uint32(index), AgentCount: uint32(count)},
	})
	if err == nil {
		return response, nil
	}
	kind := pawl.Unavailable
	if code := status.Code(err); code == codes.Unauthenticated || code == codes.PermissionDenied {
		kind = pawl.Refused
	}
	return nil, &pawl.Error{Kind: kind, Message: fmt.Sprintf("agent %s: %s", t.Address, status.Convert(err).Message()), Err: err}
}
