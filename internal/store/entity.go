package store

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
)

// An EntityKey names an entity of any kind.
type EntityKey struct {
	Kind         string // name of the machine: job, step, worker, schedule, token, webhook, queue_pause
	pawl.StepKey        // for jobs only Job is set; for all others Job is their key
}

// JobEntity returns the key of a job among entities of any kind.
func JobEntity(key rowkey.Job) EntityKey {
	return EntityKey{lifecycle.Job.Name, pawl.StepKey{Job: key}}
}

// StepEntity returns the key of a step among entities of any kind, or of its job if the Ord is
// 0.
func StepEntity(key pawl.StepKey) EntityKey {
	if key.Ord == 0 {
		return JobEntity(key.Job)
	}
	return EntityKey{lifecycle.Step.Name, key}
}

// WorkerEntity returns the key of a worker among entities of any kind.
func WorkerEntity(key rowkey.Worker) EntityKey { return EntityOf(lifecycle.Worker.Name, int64(key)) }

// ScheduleEntity returns the key of a schedule among entities of any kind.
func ScheduleEntity(key rowkey.Schedule) EntityKey {
	return EntityOf(lifecycle.Schedule.Name, int64(key))
}

// TokenEntity returns the key of a token among entities of any kind.
func TokenEntity(key rowkey.Token) EntityKey { return EntityOf(lifecycle.Token.Name, int64(key)) }

// PauseEntity returns the key of a pause of a queue among entities of any kind.
func PauseEntity(key rowkey.QueuePause) EntityKey {
	return EntityOf(lifecycle.QueuePause.Name, int64(key))
}

// WebhookEntity returns the key of a webhook among entities of any kind.
func WebhookEntity(key rowkey.Webhook) EntityKey {
	return EntityOf(lifecycle.Webhook.Name, int64(key))
}

// EntityOf returns the key of an entity of any kind but step.
func EntityOf(kind string, key int64) EntityKey {
	return EntityKey{kind, pawl.StepKey{Job: rowkey.Job(key)}}
}

// Worker returns the key of the worker that k names.
func (k EntityKey) Worker() rowkey.Worker { return rowkey.Worker(k.Job) }

// Schedule returns the key of the schedule that k names.
func (k EntityKey) Schedule() rowkey.Schedule { return rowkey.Schedule(k.Job) }

// Token returns the key of the token that k names.
func (k EntityKey) Token() rowkey.Token { return rowkey.Token(k.Job) }

// Pause returns the key of the pause of a queue that k names.
func (k EntityKey) Pause() rowkey.QueuePause { return rowkey.QueuePause(k.Job) }

// Webhook returns the key of the webhook that k names.
func (k EntityKey) Webhook() rowkey.Webhook { return rowkey.Webhook(k.Job) }
