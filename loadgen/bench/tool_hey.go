package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"

	"github.com/rakyll/hey/requester"
)

// runHey does what `hey -z … -c … -q …` does; -q is per worker, and what -z makes of it is a number of requests.
// Where it records, it writes `-o csv`; else its report as JSON, which is where failures are counted.
func runHey(_ context.Context, l load) (outcome, error) {
	request, err := http.NewRequest(http.MethodGet, l.URL, nil)
	if err != nil {
		return outcome{}, err
	}
	n := int(math.Round(l.Rate * l.For.Seconds()))
	work := requester.Work{
		Request: request,
		N:       n / l.Connections * l.Connections,
		C:       l.Connections,
		QPS:     l.Rate / float64(l.Connections),
		Timeout: 20,
	}
	if l.Record != "" {
		f, err := os.Create(l.Record)
		if err != nil {
			return outcome{}, err
		}
		work.Writer, work.Output = f, "csv"
		work.Run()
		return outcome{Requests: work.N}, f.Close()
	}
	var out bytes.Buffer
	work.Writer, work.Output = io.Writer(&out), "{{ jsonify . }}"
	work.Run()
	return readHey(out.Bytes())
}

func readHey(text []byte) (o outcome, err error) {
	var report struct {
		ErrorDist      map[string]int
		StatusCodeDist map[string]int
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return o, fmt.Errorf("read hey's report: %w", err)
	}
	for _, n := range report.ErrorDist {
		o.Failed += n
	}
	o.Requests = o.Failed
	for code, n := range report.StatusCodeDist {
		o.Requests += n
		if code != "200" {
			o.Failed += n
		}
	}
	if o.Requests == 0 {
		return o, errors.New("hey reports no request")
	}
	return o, nil
}
