// Package grpcjs has a client that is neither ours nor Go drive a load agent: Node's gRPC, from the
// .proto file alone (L1). It has tests only. They need npm, which they install with apt-get if they
// may, and download the client from the registry of npm.
package grpcjs
