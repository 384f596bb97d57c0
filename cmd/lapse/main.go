// Lapse tells exactly when, for how long and why a Kubernetes Service dropped requests during a drain, rollout,
// upgrade or crash. Installed as kubectl-lapse it is also the kubectl plugin `kubectl lapse`.
package main

import (
	"context"
	"os"

	"lapse/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args, os.Stdout, os.Stderr))
}
