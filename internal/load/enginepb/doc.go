// Package enginepb is what an agent and its engine process tell each other, as Go code
// generated from proto/pawl/load/engine/v1/engine.proto by `make generate`.
package enginepb
