package hey

import "testing"

func TestProcessorTimesAreRead(t *testing.T) {
	busy, all, ok := parseCPUTimes("cpu  10 1 5 80 4 0 0 0 0 0\ncpu0 10 1 5 80 4 0 0 0 0 0\n")
	if !ok || busy != 16 || all != 100 {
		t.Errorf("%v of %v, %v", busy, all, ok)
	}
	for _, bad := range []string{"", "cpu\n", "cpu  1 2 x 4 5\n", "intr 1 2 3 4 5 6\n"} {
		if _, _, ok := parseCPUTimes(bad); ok {
			t.Errorf("%q passed", bad)
		}
	}
}
