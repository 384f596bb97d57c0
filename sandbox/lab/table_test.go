package main

import (
	"errors"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

func TestTableCountsEveryRun(t *testing.T) {
	one := func(name, mode string, outcome outcome, said, confidence string, checks ...check) result {
		r := result{scenario: Scenario{Name: name}, record: record{Mode: mode, Number: 1, Command: "lapse run svc/web -n lab --out /runs/1 --rate 100 --fail-if failed>0 --rate 30", LoadAvg: "2.5"},
			names: []named{{outcome, "pod-crashed", said, confidence}}, checks: checks, recorder: "v1"}
		r.run.Timeline.Tool.Version = "v2"
		r.run.Timeline.Verdict.Coverage = 0.987
		return r
	}
	broken := one("hung", "iptables", "", "", "")
	broken.names, broken.err, broken.run = nil, errors.New("no API server"), drill.Run{}
	doc := document([]result{
		one("crash", "nftables", right, "pod-crashed", "high"),
		one("crash", "iptables", right, "pod-crashed", "high"),
		one("crash", "iptables", wrong, "pod-hung", "high", check{false, "pod-crashed, medium or surer", "pod-hung [high]"}),
		one("calm", "iptables", silent, "", ""),
		broken,
	}, 3)
	for _, want := range []string{
		"lapse run svc/web -n lab --rate 100 --fail-if failed>0\n",
		"Recorded by Lapse 5 × v1; judged by 4 × v2, unknown. 3 saved runs were left out",
		"| calm | pod-crashed | iptables | 1 | silent | – | 1 | 98.7 |\n| crash | pod-crashed | iptables | 2 | right, wrong | pod-crashed high, pod-hung high | 1 | 98.7 |\n| crash | pod-crashed | nftables | 1 | right | pod-crashed high | 1 | 98.7 |\n| hung |",
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
