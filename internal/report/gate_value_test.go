package report

import (
	"testing"

	"lapse/correlate/model"
)

func TestGateValueWithoutAnUpperEndIsNotGivenOne(t *testing.T) {
	value := model.Range{Min: 40e6, Max: 50e6, Open: true}
	if got := gateValue(model.GateResult{Expr: "downtime.total > 1s", Metric: "downtime.total", Unit: model.Duration, Value: &value}); got != "≥ 40 ms" {
		t.Errorf("%q", got)
	}
}
