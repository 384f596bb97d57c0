package main

import (
	"errors"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

func TestTableCountsEveryRun(t *testing.T) {
	one := func(name, mode string, outcome outcome, said, confidence string, checks ...check) result {
		r := result{scenario: Scenario{Name: name}, record: record{Mode: mode, Number: 1, Together: 2, Command: "lapse run svc/web -n lab-3 --out /runs/1 --rate 100 --fail-if failed>0 --rate 30", LoadAvg: "2.5"},
			names: []named{{outcome, "pod-crashed", said, confidence}}, checks: checks, recorder: "v1"}
		r.run.Timeline.Tool.Version = "v2"
		r.run.Timeline.Verdict.Coverage = 0.987
		return r
	}
	broken := one("hung", "iptables", "", "", "")
	broken.Together = 1
	broken.names, broken.err, broken.run = nil, errors.New("no API server"), drill.Run{}
	crash := []prediction{{"LP01", []string{"no-ready-endpoint/one-replica", "pod-crashed"}}, {"LP05", []string{"route-outlives-pod"}}, {Rule: "LP16"}}
	crashed := func(r result, reason, confidence string) result {
		r.predicted = crash
		r.run.Timeline.Incidents = []drill.Incident{{ID: 1, Failed: 3, Causes: []drill.Cause{{Rule: "pod-crashed", Reason: reason, Confidence: confidence}}}}
		return r
	}
	doc := document([]result{
		crashed(one("crash", "nftables", right, "pod-crashed", "high"), "", "low"),
		crashed(one("crash", "iptables", right, "pod-crashed", "high"), "liveness", "high"),
		crashed(one("crash", "iptables", wrong, "pod-hung", "high", check{false, "pod-crashed, medium or surer", "pod-hung [high]"}), "", "medium"),
		one("calm", "iptables", silent, "", ""),
		broken,
	}, 3)
	for _, want := range []string{
		"lapse run svc/web -n lab --rate 100 --fail-if failed>0\n",
		"(minimum / median / maximum).\n4 of them, whose scenarios touch only what is in their own namespace, were played up to 2 at a time.\nRecorded by Lapse 5 × v1; judged by 4 × v2, unknown. 3 saved runs were left out",
		"| calm | pod-crashed | iptables | 1 | silent | – | 1 | nothing | 98.7 |\n| crash | pod-crashed | iptables | 2 | right, wrong | pod-crashed high, pod-hung high | 1 | LP01 2/2, LP05 0/2, LP16 | 98.7 |\n" +
			"| crash | pod-crashed | nftables | 1 | right | pod-crashed high | 1 | LP01 0/1, LP05 0/1, LP16 | 98.7 |\n| hung |",
		"Preflight, from the manifests alone, predicted 6 times something that a run can confirm; it came true 2 times. Of 3 incidents 2 have a cause that was predicted.\n",
		"| hung |  | iptables | 1 | not played |",
		"Of 3 incidents: 2 right, 0 not first, 0 unexplained, 1 wrong (1 of them with high confidence), 0 missed. Of 1 runs that were to lose nothing: 1 silent.",
		"- crash, iptables, run 1: want pod-crashed, medium or surer; came pod-hung [high]\n",
		"- hung, iptables, run 1: not played: no API server\n",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %q in\n%s", want, doc)
		}
	}
}
