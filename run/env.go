package run

import "strings"

// An Env is the environment of this process. Nothing else reads it: the zero value is of a process that is in no Pod.
type Env map[string]string

// EnvOf returns the environment that a list has, as [os.Environ] returns it.
func EnvOf(environ []string) Env {
	env := Env{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	return env
}

// list returns the variables as [os.Environ] returns them.
func (e Env) list() (environ []string) {
	for name, value := range e {
		environ = append(environ, name+"="+value)
	}
	return environ
}
