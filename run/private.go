package run

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"lapse/deploy"
	"lapse/loadgen/hey"
)

// private are the flags that may hold secrets. They reach the agent in a Secret, never in its arguments: those stand in
// the Job, for everybody who may look at Jobs or Pods.
type private struct {
	Headers []string `json:"headers,omitempty"`
	Hammer  string   `json:"hammer,omitempty"`
	Echo    string   `json:"echo,omitempty"`
}

// PrivateFlags are what the agent is told in a Secret, or nil if there is nothing to hide.
func (o *Options) PrivateFlags() []byte {
	p := private{Headers: o.Headers, Echo: o.Echo}
	if hey.Hides(o.Hammer) {
		p.Hammer = o.Hammer
	}
	if len(p.Headers) == 0 && p.Hammer == "" && p.Echo == "" {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}

// ReadPrivate takes in, as the agent, what came in Secrets. What is wrong with it is said without showing it: the agent's
// log is no secret.
func (o *Options) ReadPrivate(environ []string) error {
	if text := os.Getenv(deploy.EnvPrivate); text != "" {
		var p private
		if json.Unmarshal([]byte(text), &p) != nil {
			return Refuse("the workstation writes it; is it of another version of Lapse?", "the run's Secret cannot be read")
		}
		o.Headers, o.Echo = append(o.Headers, p.Headers...), p.Echo
		if p.Hammer != "" {
			o.Hammer = p.Hammer
		}
	}
	if text, set := os.LookupEnv(deploy.EnvEcho); set {
		o.Echo = text
	}
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		numbered, ok := strings.CutPrefix(variable, deploy.EnvHeader)
		if !ok {
			continue
		}
		_, header, _ := strings.Cut(numbered, "_")
		name, value, _ := strings.Cut(header, "=")
		o.Headers = append(o.Headers, name+": "+strings.TrimSpace(value))
	}
	return nil
}

// CheckSecrets reads which Secrets are meant.
func (o *Options) CheckSecrets() error {
	if o.Echo != "" && o.EchoFrom != "" {
		return Refuse("drop one of them", "both --echo and --echo-from: which text shall be sent?")
	}
	var err error
	for i, given := range o.HeadersFrom {
		if o.HeadersFrom[i], err = secretName("header-from", given); err != nil {
			return err
		}
	}
	if o.EchoFrom != "" {
		o.EchoFrom, err = secretName("echo-from", o.EchoFrom)
	}
	return err
}

func secretName(flag, given string) (string, error) {
	name := strings.TrimPrefix(given, "secret/")
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", Refuse(fmt.Sprintf("as in --%s secret/web-auth", flag), "--%s %q is no name of a Secret: %s", flag, given, problems[0])
	}
	return name, nil
}

const SecretHint = "put it into a Secret in the Service's namespace, whose keys are names of headers, as in `kubectl create secret generic web-auth " +
	"--from-literal=Authorization='Bearer …'`, and give --header-from secret/web-auth"
