package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/loadstep"
	"github.com/pawl-dev/pawl/worker"
)

// Environment variables of a worker that name the files which it shows to agents of loads. The flags of
// a worker are for its server, and agents never get the token of a server.
const (
	loadCA        = "PAWL_LOAD_CA"
	loadCert      = "PAWL_LOAD_CERT"
	loadKey       = "PAWL_LOAD_KEY"
	loadTokenFile = "PAWL_LOAD_TOKEN_FILE"
	loadStores    = "PAWL_LOAD_S3" // and the parts of buckets that the agents which it starts may use
)

// loadSteps returns the handler of steps that run a load.
func (a *app) loadSteps() worker.Handler {
	state, err := a.stateHome("set XDG_STATE_HOME", "results are")
	if err != nil {
		return worker.Func(func(context.Context, *worker.Task) (any, error) { return nil, worker.Permanent(err) })
	}
	return loadstep.Handler(loadstep.Config{
		Results: filepath.Join(state, "pawl", "load"), Program: ownProgram(), Build: "pawl " + version(), Credentials: a.stepCredentials, Stores: a.stepStores,
	})
}

// stepStores reads what the environment allows, as --s3 does, to loads of the engine s3. No workflow can: who has
// written one must not decide where the credentials of the worker are used.
func (a *app) stepStores() ([]string, error) {
	all := strings.Fields(a.getenv(loadStores))
	if len(all) == 0 {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the load uses an object store, and the worker allows none",
			Hint: "name parts of buckets in " + loadStores + " in the environment of the worker: https://HOST/BUCKET/PREFIX, separated by spaces; or use agents that have been started with --s3"}
	}
	if _, err := a.stores(all); err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: loadStores + ": " + err.Error()}
	}
	return all, nil
}

// stepCredentials reads what the environment names.
func (a *app) stepCredentials() (c controller.Credentials, err error) {
	cert, key := a.getenv(loadCert), a.getenv(loadKey)
	if (cert == "") != (key == "") {
		return c, usage("", "%s and %s: want both, or none", loadCert, loadKey)
	}
	if c, err = readCredentials(a.getenv(loadCA), cert, key); err != nil {
		return c, err
	}
	if name := a.getenv(loadTokenFile); name != "" {
		b, err := files.Read(name, maxToken)
		if err != nil {
			return c, err
		}
		c.Token = strings.TrimSpace(string(b))
	}
	c.Hint = "the environment names them: " + loadCert + " and " + loadKey + ", or " + loadTokenFile
	return c, nil
}
