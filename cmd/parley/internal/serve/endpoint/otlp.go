package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
)

// exporter exports traces and metrics as --otlp and the environment variables of OpenTelemetry say. OpenTelemetry's
// exporters read the variables. Exports do not block the program: spans that a collector does not receive in time are
// lost.
type exporter struct {
	traces   *sdktrace.TracerProvider // nil if traces are not exported
	metrics  sdkmetric.Reader         // nil if metrics are not exported; a MeterProvider reads and closes it
	resource *resource.Resource
}

// newExporter returns nil if there is nothing to export, and an error if collector, the URL of --otlp, is invalid.
// Values of the environment that are invalid are reported with warn: a typing error there must not stop a gateway.
func newExporter(ctx context.Context, collector string, warn func(text string)) (*exporter, error) {
	base, err := collectorURL(collector)
	if err != nil || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, err
	}
	otelapi.SetErrorHandler(&repeatedWarnings{warn: warn})
	spans, err := newSpanExporter(ctx, base)
	if err != nil {
		warn("OpenTelemetry: " + err.Error() + "; traces are not exported")
	}
	e := &exporter{}
	if e.metrics, err = newMetricReader(ctx, base); err != nil {
		warn("OpenTelemetry: " + err.Error() + "; metrics are not exported")
	}
	if spans == nil && e.metrics == nil {
		return nil, nil
	}
	e.resource, err = resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "parley"), attribute.String("service.version", program.Version())),
		resource.WithFromEnv())
	if err != nil {
		warn("OpenTelemetry: " + err.Error())
	}
	if spans != nil {
		e.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(e.resource), sdktrace.WithBatcher(spans))
	}
	return e, nil
}

// collectorURL returns the URL of --otlp, or nil for an empty one.
func collectorURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		// The text can have a password.
		return nil, errors.New("--otlp must be the URL of a collector without a user, such as http://localhost:4318; " +
			"write credentials to OTEL_EXPORTER_OTLP_HEADERS")
	}
	return u, nil
}

// newSpanExporter returns nil if traces are not exported. The collector of --otlp replaces the endpoints of the
// environment.
func newSpanExporter(ctx context.Context, collector *url.URL) (sdktrace.SpanExporter, error) {
	wanted, err := exports("TRACES", collector)
	if err != nil || !wanted {
		return nil, err
	}
	var options []otlptracehttp.Option
	if collector != nil {
		options = append(options, otlptracehttp.WithEndpointURL(collector.JoinPath("v1", "traces").String()))
	}
	return otlptracehttp.New(ctx, options...)
}

// newMetricReader is newSpanExporter for metrics.
func newMetricReader(ctx context.Context, collector *url.URL) (sdkmetric.Reader, error) {
	wanted, err := exports("METRICS", collector)
	if err != nil || !wanted {
		return nil, err
	}
	var options []otlpmetrichttp.Option
	if collector != nil {
		options = append(options, otlpmetrichttp.WithEndpointURL(collector.JoinPath("v1", "metrics").String()))
	}
	to, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(to), nil
}

// exports reports whether a signal is exported. The specification's default is to export to a collector on this
// machine; the program does so only if a variable or --otlp says that there is one.
func exports(signal string, collector *url.URL) (bool, error) {
	of := "OTEL_EXPORTER_OTLP_" + signal
	protocol := cmp.Or(os.Getenv(of+"_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	switch variable := "OTEL_" + signal + "_EXPORTER"; os.Getenv(variable) {
	case "":
		if collector == nil && os.Getenv(of+"_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
			return false, nil
		}
	case "otlp":
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("%s must be otlp or none", variable)
	}
	if protocol != "" && protocol != "http/protobuf" && collector == nil {
		return false, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf; use the endpoint of the " +
			"collector for it, usually port 4318")
	}
	return true, nil
}

// warningInterval is the time in which OpenTelemetry's warning of one kind is printed once.
const warningInterval = 5 * time.Minute

// repeatedWarnings prints the errors of OpenTelemetry, which reports each export that fails.
type repeatedWarnings struct {
	warn func(text string)

	mu      sync.Mutex
	printed map[string]time.Time // by the beginning of the text, which names the signal
}

// Handle implements otel.ErrorHandler.
func (w *repeatedWarnings) Handle(err error) {
	kind, _, _ := strings.Cut(err.Error(), ":")
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.printed[kind]; ok && time.Since(at) < warningInterval {
		return
	}
	if w.printed == nil {
		w.printed = make(map[string]time.Time)
	}
	w.printed[kind] = time.Now()
	w.warn("OpenTelemetry: " + err.Error())
}

// reportEnd reports that the last export has failed.
func reportEnd(err error) {
	if err != nil {
		otelapi.Handle(err)
	}
}
