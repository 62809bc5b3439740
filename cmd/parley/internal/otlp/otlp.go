// Package otlp exports traces and metrics with the OpenTelemetry protocol over HTTP, as an URL and the standard environment
// variables of OpenTelemetry say. parley up, serve, bridge and mock use it.
//
// OpenTelemetry's own exporters over HTTP link gRPC, which adds 5.5 MB to the program. This package takes the encoding of
// spans from OpenTelemetry, encodes metrics itself (metrics.go), and sends both with net/http (client.go). settings.go
// reads the environment.
package otlp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Options configure an Exporter.
type Options struct {
	// URL is the base URL of the collector, such as http://localhost:4318. It replaces the endpoints of the environment.
	// If it is empty, the environment says whether and where to export.
	URL     string
	Getenv  func(string) string // usually os.Getenv
	Service string              // the name of the service, unless the environment has one
	Version string              // of the service
	// Warn and Note report problems of the environment and of exports, and their end. They must be safe for concurrent use.
	Warn, Note func(text string)

	transport http.RoundTripper // for tests; nil means that of net/http
}

// Exporter exports traces and metrics. Exports do not block the program: spans that the collector does not receive in time
// are lost.
type Exporter struct {
	Traces     *sdktrace.TracerProvider // nil if traces are not exported
	Metrics    sdkmetric.Reader         // nil if metrics are not exported; a MeterProvider reads and closes it
	Resource   *resource.Resource
	Propagator propagation.TextMapPropagator
}

// Start starts an Exporter. It returns nil if there is nothing to export, and an error if the URL is invalid. A setting of the
// environment that is invalid is reported and ignored.
func Start(o Options) (*Exporter, error) {
	s := settings{Options: o}
	if s.disabled() {
		return nil, nil
	}
	outages := &outages{warn: o.Warn, note: o.Note, failing: make(map[string]bool)}
	traces, err := s.client("traces", outages)
	if err != nil {
		return nil, err
	}
	metrics, err := s.client("metrics", outages)
	if err != nil || traces == nil && metrics == nil {
		return nil, err
	}
	e := &Exporter{Propagator: s.propagator()}
	e.Resource, err = resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		o.Warn(fmt.Sprintf("OTEL_RESOURCE_ATTRIBUTES: %v", err))
	}
	if traces != nil {
		e.Traces = sdktrace.NewTracerProvider(sdktrace.WithResource(e.Resource), sdktrace.WithBatcher(otlptrace.NewUnstarted(spanClient{traces})))
	}
	if metrics != nil {
		e.Metrics = sdkmetric.NewPeriodicReader(&metricExporter{client: metrics, temporality: s.temporality()})
	}
	return e, nil
}

// propagator returns the propagators that the environment names (OpenTelemetry, General SDK Configuration). The program has
// those of the World Wide Web Consortium.
func (s *settings) propagator() propagation.TextMapPropagator {
	known := map[string]propagation.TextMapPropagator{"tracecontext": propagation.TraceContext{}, "baggage": propagation.Baggage{}}
	var chosen []propagation.TextMapPropagator
	var seen []string
	for name := range strings.SplitSeq(s.value("OTEL_PROPAGATORS", "tracecontext,baggage"), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case name == "none" || slices.Contains(seen, name):
		case known[name] == nil:
			s.Warn(fmt.Sprintf("OTEL_PROPAGATORS: propagator %.100q is not supported; write tracecontext, baggage or none", name))
		default:
			chosen = append(chosen, known[name])
		}
		seen = append(seen, name)
	}
	return propagation.NewCompositeTextMapPropagator(chosen...)
}
