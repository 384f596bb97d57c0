package hint

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestTheOutermostHintIsTold(t *testing.T) {
	inner := Errorf("check the file", "read: %w", io.EOF)
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {io.EOF, ""}, {inner, "check the file"}, {fmt.Errorf("open: %w", inner), "check the file"},
		{errors.Join(io.ErrClosedPipe, inner), "check the file"}, {Add("give another", inner), "give another"}, {Add("", inner), "check the file"},
	} {
		if got := Of(test.err); got != test.want {
			t.Errorf("%v: hint %q, want %q", test.err, got, test.want)
		}
	}
	if Add("do this", nil) != nil || !errors.Is(inner, io.EOF) || inner.Error() != "read: EOF" {
		t.Errorf("%v", inner)
	}
}
