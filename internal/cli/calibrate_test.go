package cli

import (
	"errors"
	"testing"

	"lapse/internal/run/exit"
	"lapse/loadgen/hey"
)

func TestCalibrationWithoutARateIsInconclusive(t *testing.T) {
	if err := (calibrated{Calibration: hey.Calibration{Suggestions: []hey.Suggestion{{}}}}).verdict(); err != nil {
		t.Error(err)
	}
	if e, ok := errors.AsType[exit.Code]((calibrated{}).verdict()); !ok || e.Code != 4 {
		t.Errorf("%+v, want exit code 4", e)
	}
}
