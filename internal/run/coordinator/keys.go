package coordinator

import (
	"context"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
)

// coordinatorKeys are what the run's coordinator knows its probers by, and they it. An agent that somebody has
// applied makes them.
func (m *measurement) coordinatorKeys(ctx context.Context, namespace string) (agent.KeyPair, error) {
	secret := m.opts.Env[deploy.EnvKeys]
	if secret == "" {
		return m.opts.Env.ProberKeys(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return deploy.HandOutKeys(ctx, m.Client, namespace, m.opts.Env[deploy.EnvPod], secret, m.opts.MaxDuration+m.opts.Hold)
}

// dismissProbers deletes the probers of a run that somebody has applied, once there is nothing more for them to
// measure. Otherwise the workstation does.
func (m *measurement) dismissProbers() {
	if m.opts.Env[deploy.EnvKeys] == "" || m.Client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	namespace := m.opts.Env[deploy.EnvNamespace]
	if err := deploy.DismissProbers(ctx, m.Client, namespace, m.opts.ID); err != nil {
		m.log.Warn("the probers stay until somebody deletes them: `lapse delete -n "+namespace+" "+m.opts.ID+"`", "error", err)
	}
}
