// Package loadpb is the protocol between a controller and a load agent, as Go code generated
// from proto/pawl/load/v1/load.proto by `make generate` (L1).
package loadpb
