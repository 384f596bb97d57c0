package main

import (
	"context"
	"io"

	"fortio.org/fortio/fhttp"
	"fortio.org/fortio/periodic"
)

// runFortio does what `fortio load -uniform -qps … -c … -t …` does, with its own, faster HTTP client; where it
// records, with -access-log-file -access-log-format influx.
func runFortio(_ context.Context, l load) (o outcome, err error) {
	options := fhttp.HTTPRunnerOptions{
		RunnerOptions: periodic.RunnerOptions{
			QPS: l.Rate, NumThreads: l.Connections, Duration: l.For, Uniform: true, Out: io.Discard,
		},
		HTTPOptions: fhttp.HTTPOptions{URL: l.URL},
	}
	if l.Record != "" {
		if err := options.AddAccessLogger(l.Record, "influx"); err != nil {
			return o, err
		}
	}
	results, err := fhttp.RunHTTPTest(&options)
	if err != nil {
		return o, err
	}
	for code, n := range results.RetCodes {
		o.Requests += int(n)
		if code != 200 {
			o.Failed += int(n)
		}
	}
	return o, nil
}
