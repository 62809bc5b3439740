package endpoint

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/parley-mcp/parley/internal/must"
)

// setExporters sets the variables of OpenTelemetry, of which the environment of the test has none.
func setExporters(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS"} {
		t.Setenv(name, variables[name])
	}
}

func TestFlagAndVariablesSayWhatIsExportedAndWhere(t *testing.T) {
	var mu sync.Mutex
	var requests []string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, r.URL.Path+r.Header.Get("X-Key"))
	}))
	t.Cleanup(collector.Close)
	for _, c := range []struct {
		name      string
		flag      string
		variables map[string]string
		want      string // requests
		warning   string
	}{
		{name: "nothing"},
		{name: "flag", flag: collector.URL, want: "/v1/metrics /v1/traces"},
		{name: "flag with a path", flag: collector.URL + "/in/", want: "/in/v1/metrics /in/v1/traces"},
		{"flag before variables", collector.URL, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
			"OTEL_EXPORTER_OTLP_HEADERS": "x-key=%2Bk"}, "/v1/metrics+k /v1/traces+k", ""},
		{"endpoint", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}, "/v1/metrics /v1/traces", ""},
		{"endpoint of a signal", "", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.URL + "/t"},
			"/t", ""},
		{"one signal", collector.URL, map[string]string{"OTEL_METRICS_EXPORTER": "none"}, "/v1/traces", ""},
		{"disabled", collector.URL, map[string]string{"OTEL_SDK_DISABLED": "TRUE"}, "", ""},
		{"unknown exporter", collector.URL, map[string]string{"OTEL_TRACES_EXPORTER": "console"}, "/v1/metrics",
			"OTEL_TRACES_EXPORTER must be otlp or none; traces are not exported"},
		{"unknown protocol", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL,
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "/v1/metrics",
			"OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			setExporters(t, c.variables)
			requests = nil
			var warnings []string
			e := must.Get(newExporter(t.Context(), c.flag, func(text string) { warnings = append(warnings, text) }))(t)
			must.CheckContains(t, strings.Join(warnings, "\n"), c.warning)
			must.CheckThat(t, c.warning != "" || len(warnings) == 0, "warnings %q", warnings)
			if e != nil && e.traces != nil {
				_, span := e.traces.Tracer("test").Start(t.Context(), "span")
				span.End()
				must.Check(t, e.traces.Shutdown(t.Context()))
			}
			if e != nil && e.metrics != nil {
				provider := metric.NewMeterProvider(metric.WithReader(e.metrics))
				counter := must.Get(provider.Meter("test").Int64Counter("calls"))(t)
				counter.Add(t.Context(), 1)
				must.Check(t, provider.Shutdown(t.Context()))
			}
			slices.Sort(requests)
			must.CheckEqual(t, strings.Join(requests, " "), c.want, "requests")
		})
	}
}

func TestInvalidURLsOfACollectorAreErrorsWithoutSecrets(t *testing.T) {
	for _, text := range []string{"collector", "localhost:4318", "grpc://h", "http://u:s3cret@h", "http://"} {
		_, err := newExporter(t.Context(), text, func(string) {})
		must.CheckThat(t, err != nil && strings.HasPrefix(err.Error(), "--otlp must be the URL of a collector") &&
			!strings.Contains(err.Error(), "s3cret"), "%s: %v", text, err)
	}
}

// OpenTelemetry reports each export that fails: every five seconds.
func TestAnOutageIsReportedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed []string
		w := &repeatedWarnings{warn: func(text string) { printed = append(printed, text) }}
		for range 3 {
			w.Handle(errors.New("traces export: refused"))
			w.Handle(errors.New("failed to upload metrics: refused"))
		}
		must.CheckEqual(t, len(printed), 2, "warnings")
		time.Sleep(warningInterval)
		w.Handle(errors.New("traces export: time-out"))
		must.CheckEqual(t, printed[2], "OpenTelemetry: traces export: time-out")
	})
}
