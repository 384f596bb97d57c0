package deploy

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"

	"lapse/deploy/agent"
	"lapse/internal/hint"
)

// ProberKeysIn returns the TLS configuration of a prober whose keys are files in a directory, as a mounted Secret has
// them. Each handshake uses the files of that moment. If these cannot be used any more, the last good ones serve on,
// and the log says why.
func ProberKeysIn(dir string, log *slog.Logger) (*tls.Config, error) {
	k := &keyFiles{dir: dir, log: log}
	if err := k.read(); err != nil {
		advice := "mount ca.crt, prober.crt and prober.key of the probers' Secret there"
		return nil, hint.Errorf(advice, "the keys in %s (%s): %w", dir, EnvKeyDir, err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.now(), nil },
	}, nil
}

// keyFiles are a prober's keys in a directory.
type keyFiles struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex
	pair   agent.KeyPair // as read
	config *tls.Config   // made of them
	said   string        // why they could not be used, in the log
}

// now returns the configuration with the files of this moment, or with the last good ones.
func (k *keyFiles) now() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch err := k.read(); {
	case err == nil:
		k.said = ""
	case err.Error() != k.said:
		k.said = err.Error()
		k.log.Error("the prober's keys cannot be used: it goes on with those before", "directory", k.dir, "error", err)
	}
	return k.config
}

// read reads the files, and makes a configuration of them if they have changed. The caller holds the mutex.
func (k *keyFiles) read() error {
	var files [3][]byte
	for i, name := range []string{authorityKey, proberKey + ".crt", proberKey + ".key"} {
		var err error
		if files[i], err = os.ReadFile(filepath.Join(k.dir, name)); err != nil {
			return err
		}
	}
	pair := agent.KeyPair{CA: files[0], Cert: files[1], Key: files[2]}
	if k.config != nil && reflect.DeepEqual(pair, k.pair) {
		return nil
	}
	config, err := pair.Server()
	if err != nil {
		return err
	}
	k.pair, k.config = pair, config
	return nil
}
