package controller

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

const inspectTime = 10 * time.Second

// Inspect returns what an agent shows of itself. The address is one that Address has returned. The
// error is of kind Unavailable if the agent does not reply.
func Inspect(ctx context.Context, address string, c Credentials) (*loadpb.GetAgentResponse, error) {
	options, err := c.Options(address)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(endpoint(address), append(options, grpc.WithNoProxy())...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	r, err := loadpb.NewAgentServiceClient(conn).GetAgent(ctx, &loadpb.GetAgentRequest{})
	if err != nil {
		err = plain(err)
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "agent " + address + " cannot be asked", Err: err, Hint: absent(address, err)}
	}
	return r, nil
}
