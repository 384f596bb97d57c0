package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestAFileWithoutEndIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"run", "https://127.0.0.1:1", "--duration=1s", "--ca-file=/dev/zero"},
		{"run", "grpc://127.0.0.1:1", "--duration=1s", "--grpc-method=a.B/C", "--grpc-descriptors=/dev/zero"},
	} {
		var said bytes.Buffer
		if code := Main(t.Context(), append([]string{"lapse"}, args...), &said, &said); code != 2 || !strings.Contains(said.String(), "/dev/zero has more than ") {
			t.Errorf("%v: exit code %d, %s", args, code, &said)
		}
	}
}
