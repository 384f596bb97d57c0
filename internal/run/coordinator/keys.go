package coordinator

import (
	"context"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
)

// coordinatorKeys returns the mutual-TLS keys of coordinator and probers. An agent that was applied by hand makes
// them.
func (m *measurement) coordinatorKeys(ctx context.Context, namespace string) (agent.KeyPair, error) {
	secret := m.opts.Env[deploy.EnvKeys]
	if secret == "" {
		return m.opts.Env.ProberKeys(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	valid := m.opts.MaxDuration + m.opts.Hold
	return deploy.HandOutKeys(ctx, m.Client, namespace, m.opts.Env[deploy.EnvPod], secret, valid)
}

// dismissProbers deletes the probers of a run that was applied by hand, once they have nothing more to measure. The
// workstation deletes those of other runs.
func (m *measurement) dismissProbers() {
	if m.opts.Env[deploy.EnvKeys] == "" || m.Client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	namespace := m.opts.Env[deploy.EnvNamespace]
	if err := deploy.DismissProbers(ctx, m.Client, namespace, m.opts.ID); err != nil {
		advice := "`lapse delete -n " + namespace + " " + m.opts.ID + "`"
		m.log.Warn("the probers stay until somebody deletes them: "+advice, "error", err)
	}
}
