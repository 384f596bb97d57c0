package cli

import (
	"fmt"
	"strings"

	"lapse/docs"
	"lapse/internal/report"
)

// A topic is what `lapse help NAME` prints of what is no verb.
type topic struct{ name, about, text string }

func topics() []topic {
	return []topic{
		{"causes", "What a run may name as the cause of an outage", causesTopic()},
		{"environment", "Which environment variables are read", environment},
		{"exit-codes", "What the exit codes mean", exitCodes},
		{"formats", "What -o can write", formatsTopic()},
		{"gates", "What --fail-if takes, and how error bars decide", docs.Reference("gates")},
		{"rights", "Which rights in the cluster a run needs", docs.Reference("rights")},
	}
}

const environment = `  KUBECONFIG                kubeconfig files, as for kubectl
  LAPSE_IMAGE               image of the Job, where --image is not given
  DOCKER_CONFIG             folder with the logins of lapse image push
  NO_COLOR, CLICOLOR_FORCE  summaries without colours, or with colours in a file too
  TERM=dumb                 no colours, no line that is rewritten
  TRACEPARENT               span that the trace of -o otlp is part of (W3C Trace Context)
  OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
                            its resource (default: service.name=lapse)
  OTEL_EXPORTER_OTLP_ENDPOINT
                            where lapse export --send sends it; /v1/traces is added
                            (default: http://localhost:4318)
  OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_PROTOCOL
                            KEY=VALUE,...; milliseconds (default: 10000); http/protobuf alone
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, ..._HEADERS, ..._TIMEOUT, ..._PROTOCOL
                            the same for traces alone; this endpoint is the whole URL`

// causesTopic lists the causes as lapse explain does.
func causesTopic() string {
	var b strings.Builder
	_ = listCauses(&b) // a Builder takes all
	return b.String() + "\n`lapse explain CAUSE` says more."
}

func formatsTopic() string {
	var b strings.Builder
	for _, f := range report.Formats {
		fmt.Fprintf(&b, "  %-10s %s\n", f.Name, f.Doc)
	}
	return b.String()
}
