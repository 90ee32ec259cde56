package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
)

// FindJob reads a job by its public id. The error is of kind NotFound if there is none.
func FindJob(ctx context.Context, v Views, id pawl.ID) (*pawl.Job, error) {
	j, err := v.Job(ctx, id.JobKey())
	if errors.Is(err, ErrNotFound) || err == nil && j.ID != id {
		return nil, NoJob(id)
	}
	return j, err
}

// NoJob returns the error that there is no job with that id.
func NoJob(id pawl.ID) error {
	public := id.Public(pawl.JobPrefix)
	return &pawl.Error{Kind: pawl.NotFound, Entity: public, Message: "there is no job " + public, Hint: "list the jobs with: pawl jobs"}
}

// NoStep returns the error that there is no step with that id.
func NoStep(id pawl.ID) error {
	public := id.Public(pawl.StepPrefix)
	return &pawl.Error{Kind: pawl.NotFound, Entity: public, Message: "there is no step " + public}
}

// FindWorker reads a worker by its public id. The error is of kind NotFound if there is none.
func FindWorker(ctx context.Context, v Views, id pawl.ID) (*pawl.Worker, error) {
	w, err := v.Worker(ctx, id.WorkerKey())
	if errors.Is(err, ErrNotFound) || err == nil && w.ID != id {
		return nil, NoWorker(id)
	}
	return w, err
}

// NoWorker returns the error that there is no worker with that id.
func NoWorker(id pawl.ID) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: "there is no worker " + id.Public(pawl.WorkerPrefix), Hint: "list the workers with: pawl worker list"}
}

// FindSchedule reads a schedule that is not removed, by its name. The error is of kind
// NotFound if there is none.
func FindSchedule(ctx context.Context, v Views, n pawl.ScheduleName) (*pawl.Schedule, error) {
	if n.Name == "" {
		return nil, NoSchedule(n.Name)
	}
	found, err := v.Schedules(ctx, n, pawl.ScheduleName{}, 1)
	if err == nil && len(found) == 0 {
		err = NoSchedule(n.Name)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// FindToken reads a token by its public id. The error is of kind NotFound if there is none.
func FindToken(ctx context.Context, v Views, id pawl.ID) (*pawl.Token, error) {
	t, err := v.Token(ctx, id.TokenKey())
	if errors.Is(err, ErrNotFound) || err == nil && t.ID != id {
		return nil, NoToken(id)
	}
	return t, err
}

// FindTokenBySum reads the newest active token with a sum. The error is of kind NotFound if
// there is none.
func FindTokenBySum(ctx context.Context, v Views, sum [32]byte) (*pawl.Token, error) {
	t, err := v.TokenBySum(ctx, sum)
	if errors.Is(err, ErrNotFound) {
		return nil, pawl.Errorf(pawl.NotFound, "there is no active token with that SHA-256")
	}
	return t, err
}

// NoToken returns the error that there is no token with that id.
func NoToken(id pawl.ID) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: "there is no token " + id.Public(pawl.TokenPrefix), Hint: "list the tokens with: pawl token list"}
}

// FindWebhook reads a webhook by its public id. The error is of kind NotFound if there is none.
func FindWebhook(ctx context.Context, v Views, id pawl.ID) (*pawl.Webhook, error) {
	w, err := v.Webhook(ctx, id.WebhookKey())
	if errors.Is(err, ErrNotFound) || err == nil && w.ID != id {
		return nil, NoWebhook(id)
	}
	return w, err
}

// NoWebhook returns the error that there is no webhook with that id.
func NoWebhook(id pawl.ID) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: "there is no webhook " + id.Public(pawl.WebhookPrefix), Hint: "list the webhooks with: pawl webhook list"}
}

// NoSchedule returns the error that there is no schedule with that name.
func NoSchedule(name string) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no schedule %q", name), Hint: "list them with: pawl schedule list"}
}
