package verdict

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/hint"
	"lapse/timeline"
)

func TestGateStatesWhenTheRunFails(t *testing.T) {
	for expr, want := range map[string]Gate{
		"failed>0":               {Metric: "failed", Op: ">", Limit: 0},
		"  failed   >=  12 ":     {Metric: "failed", Op: ">=", Limit: 12},
		"errors.rate>0.1%":       {Metric: "errors.rate", Op: ">", Limit: 0.001},
		"errors.rate > 0.001":    {Metric: "errors.rate", Op: ">", Limit: 0.001},
		"downtime.total>500ms":   {Metric: "downtime.total", Op: ">", Limit: float64(500 * time.Millisecond)},
		"window.longest > 1m30s": {Metric: "window.longest", Op: ">", Limit: float64(90 * time.Second)},
		"blackout.longest>0":     {Metric: "blackout.longest", Op: ">", Limit: 0},
		"failed > 4294967296":    {Metric: "failed", Op: ">", Limit: 1 << 32},
		"windows > 3":            {Metric: "windows", Op: ">", Limit: 3},
		"latency.p99>1.5s":       {Metric: "latency.p99", Op: ">", Limit: float64(1500 * time.Millisecond)},
		"coverage<99.9%":         {Metric: "coverage", Op: "<", Limit: 0.999},
		"coverage\t<=\t0.999":    {Metric: "coverage", Op: "<=", Limit: 0.999},
		"coverage < 99.9 %":      {Metric: "coverage", Op: "<", Limit: 0.999},
		"errors.rate>=100%":      {Metric: "errors.rate", Op: ">=", Limit: 1},
		"latency.p99 > 1h2m3.004s": {Metric: "latency.p99", Op: ">",
			Limit: float64(time.Hour + 2*time.Minute + 3004*time.Millisecond)},
	} {
		got, err := ParseGate(expr)
		if err != nil {
			t.Errorf("%q: %v", expr, err)
			continue
		}
		got.text = ""
		if got != want {
			t.Errorf("%q is %+v, want %+v", expr, got, want)
		}
	}
}

func TestMalformedGateNamesPlaceAndRemedy(t *testing.T) {
	for _, tt := range []struct {
		expr    string
		column  int
		problem string
		hint    string
	}{
		{"", 1, "empty expression", "failed>0"},
		{"   ", 4, "empty expression", "failed>0"},
		{"faild>0", 1, `unknown metric "faild"`, "known are failed, errors.rate, downtime.total"},
		{">0", 1, `unknown metric ""`, "known are"},
		{"failed", 7, "no operator", "failed>0"},
		{"failed 0", 8, "no operator", "one of > >= < <="},
		{"failed=0", 7, `unknown operator "="`, "failed>0"},
		{"failed==0", 7, `unknown operator "=="`, "failed>0"},
		{"failed ≥ 3", 8, `unknown operator "≥"`, "failed>0"},
		{"failed > ", 10, "no limit", "failed>0"},
		{"failed>0.5", 8, `bad count "0.5"`, "whole number"},
		{"failed>-1", 8, `bad count "-1"`, "whole number"},
		{"failed>0 and windows>0", 8, `bad count "0 and windows>0"`, "whole number"},
		{"downtime.total>500", 16, `bad duration "500"`, "with a unit"},
		{"window.longest > -5ms", 18, `negative duration "-5ms"`, "with a unit"},
		{"errors.rate>1.5", 13, `ratio "1.5" is not between 0% and 100%`, "percentage"},
		{"coverage<101%", 10, "is not between", "percentage"},
		{"coverage<NaN", 10, `bad ratio "NaN"`, "percentage"},
		{"coverage<0x1p-2", 10, "bad ratio", "percentage"},
		{"coverage<%", 10, "bad ratio", "coverage<99.9%"},
		{"errors.rate>1", 12, "no run can ever fail this", "percentage"},
		{"errors.rate>100%", 12, "no run can ever fail this", "percentage"},
		{"coverage<0", 9, "no run can ever fail this", "percentage"},
		{"failed<0", 7, "no run can ever fail this", "whole number"},
		{"downtime.total < 0s", 16, "no run can ever fail this", "with a unit"},
		{"failed>=0", 7, "every run would fail this", "failed>0"},
		{"latency.p99>=0", 12, "every run would fail this", "with a unit"},
		{"coverage<=100%", 9, "every run would fail this", "percentage"},
		{"coverage<99.9", 10, `ratio "99.9" is not between 0% and 100%`, "coverage<99.9%"},
		{"errors.rate>0,1%", 13, "bad ratio", "errors.rate>0.1%"},
		{"failed>0%", 8, `bad count "0%"`, "whole number"},
		{"failed>1e3", 8, `bad count "1e3"`, "whole number"},
		{"failed>9007199254740993", 8, `count "9007199254740993" is more than 9007199254740992`, "whole number"},
		{"failed>99999999999999999999", 8, `count "99999999999999999999" is more than 9007199254740992`,
			"whole number"},
		{"latency.p99>200", 13, `bad duration "200"`, "with a unit"},
		{"latency.p99>200MS", 13, "bad duration", "with a unit"},
		{"downtime>1s", 1, `unknown metric "downtime"`, "did you mean downtime.total?"},
		{"Failed>0", 1, `unknown metric "Failed"`, "did you mean failed?"},
		{"p99>1s", 1, "unknown metric", "did you mean latency.p99?"},
		{"fehlgeschlägen>0", 1, "unknown metric", "known are"},
	} {
		_, err := ParseGate(tt.expr)
		gateErr, ok := errors.AsType[*gateError](err)
		if !ok {
			t.Errorf("%q: error is %v, want a gateError", tt.expr, err)
			continue
		}
		if gateErr.Column != tt.column || !strings.Contains(gateErr.Problem, tt.problem) ||
			!strings.Contains(hint.Of(err), tt.hint) {
			t.Errorf("%q: %v\nhint: %s\nwant column %d, %q, hint with %q", tt.expr, gateErr, hint.Of(err), tt.column,
				tt.problem, tt.hint)
		}
	}
}

func TestExampleOfEveryMetricIsAGate(t *testing.T) {
	for _, m := range GateMetrics {
		if _, err := ParseGate(example(m)); err != nil {
			t.Errorf("the hint for %s does not parse: %v", m.Name, err)
		}
	}
}

func TestGateIsUndecidedWhereTheErrorBarsHoldItsLimit(t *testing.T) {
	measured := model.Verdict{
		Sent: 1000, Failed: 5, ErrorRate: 0.005, Windows: 1, Coverage: 0.9995, DetectionLimit: 5 * time.Millisecond,
		Downtime:      model.Downtime{Total: model.Length{Min: 40 * time.Millisecond, Max: 50 * time.Millisecond}},
		LongestWindow: &model.Length{Min: 80 * time.Millisecond, Max: 90 * time.Millisecond},
		LatencyP99:    new(30 * time.Millisecond),
	}
	for expr, want := range map[string]model.GateOutcome{
		"failed>0": model.GateFail, "failed>4": model.GateFail, "failed>5": model.GatePass, "failed>=5": model.GateFail,
		"errors.rate>0.1%": model.GateFail, "errors.rate>0.5%": model.GatePass,
		"downtime.total>39ms": model.GateFail, "downtime.total>40ms": model.GateUndecided,
		"downtime.total>=40ms": model.GateFail,
		"downtime.total>45ms":  model.GateUndecided, "downtime.total>=50ms": model.GateUndecided,
		"downtime.total>50ms": model.GatePass,
		"window.longest>79ms": model.GateFail, "window.longest>85ms": model.GateUndecided,
		"window.longest>1s":   model.GatePass,
		"window.longest<80ms": model.GatePass, "window.longest<85ms": model.GateUndecided,
		"window.longest<91ms": model.GateFail,
		// none seen, but one of < 5 ms may have gone unseen
		"blackout.longest>4ms": model.GateUndecided, "blackout.longest>5ms": model.GatePass,
		"windows>0": model.GateFail, "windows>1": model.GatePass,
		// three digits are kept of it
		"latency.p99>30ms": model.GateUndecided, "latency.p99>30.1ms": model.GatePass,
		"latency.p99>29.9ms": model.GateFail,
		"failed<6":           model.GateFail, "failed<5": model.GatePass, "failed<=5": model.GateFail,
		"failed<=4":         model.GatePass,
		"errors.rate>=0.5%": model.GateFail, "errors.rate<0.5%": model.GatePass, "windows>=1": model.GateFail,
		"windows<1":      model.GatePass,
		"coverage<99.9%": model.GatePass, "coverage<99.95%": model.GatePass, "coverage<=99.95%": model.GateFail,
		"coverage<99.99%": model.GateFail,
	} {
		gate, err := ParseGate(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := gate.judge(&model.Timeline{
			Windows: []model.Window{{Kind: model.Partial}},
			Targets: []model.Target{{
				Target: timeline.Target{Kind: timeline.New}, Latency: &model.Latency{P99: *measured.LatencyP99},
			}},
		}, &measured); got.Outcome != want {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, want)
		}
	}
}

func TestGateOnNothingMeasuredIsUndecided(t *testing.T) {
	for _, m := range GateMetrics {
		gate, err := ParseGate(example(m))
		if err != nil {
			t.Fatal(err)
		}
		if got := gate.judge(&model.Timeline{}, &model.Verdict{}); got.Outcome != model.GateUndecided ||
			got.Value != nil || got.Metric != m.Name || got.Unit != m.Unit {
			t.Errorf("%s: %+v, want undecided without a value, in %s", gate, got, m.Unit)
		}
	}
}

func FuzzParseGate(f *testing.F) {
	for _, seed := range []string{"failed>0", "errors.rate > 0.1%", "coverage<=99.9 %", "window.longest>=1m2.5s", "x",
		"failed>>0", "é≥\x80%", "coverage<1e-2", "coverage<-0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		gate, err := ParseGate(expr)
		if err != nil {
			gateErr, ok := errors.AsType[*gateError](err)
			if !ok || gateErr.Column < 1 || gateErr.Column > len(expr)+1 || hint.Of(err) == "" ||
				gateErr.Problem == "" {
				t.Fatalf("%q: a poor error: %#v", expr, err)
			}
			return
		}
		again, err := ParseGate(gate.String())
		if err != nil || again != gate {
			t.Fatalf("%q prints as %q, which reads as %+v, %v; want %+v", expr, gate, again, err, gate)
		}
		if !(gate.Limit >= 0) {
			t.Fatalf("%q limits at %v", expr, gate.Limit)
		}
	})
}

// A run that has lost a request has lost one whatever follows. Its share of failures, or its longest window, may still
// change its mind.
func TestARunFailsForGoodByWhatOnlyAddsUp(t *testing.T) {
	for expr, want := range map[string]bool{
		"failed > 0": true, "failed >= 1": true, "downtime.total > 1s": true, "failed < 5": false, "errors.rate > 1%": false,
		"window.longest > 1s": false, "coverage < 99%": false,
	} {
		metric, _, _ := strings.Cut(expr, " ")
		tl := &model.Timeline{Verdict: model.Verdict{Gates: []model.GateResult{
			{Expr: "latency.p99 > 1s", Metric: "latency.p99", Outcome: model.GatePass}, {Expr: expr, Metric: metric, Outcome: model.GateFail},
		}}}
		if FailsForGood(tl) != want {
			t.Errorf("%s: want %v", expr, want)
		}
		tl.Verdict.Gates[1].Outcome = model.GateUndecided
		if FailsForGood(tl) {
			t.Errorf("%s fails though it is undecided", expr)
		}
	}
}
