package otel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
)

// record returns the options of a program with this name, and a function that sends the remaining data when the
// program ends. To send to a collector, spans is the exporter of otlptracehttp.New(ctx), and metrics is
// sdkmetric.NewPeriodicReader with the exporter of otlpmetrichttp.New(ctx). Both are packages of
// go.opentelemetry.io/otel/exporters/otlp.
func record(name string, spans sdktrace.SpanExporter, metrics sdkmetric.Reader) (o otel.Options,
	shutdown func(context.Context) error) {
	service := resource.NewSchemaless(attribute.String("service.name", name))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(service))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(metrics), sdkmetric.WithResource(service))
	o = otel.Options{
		TracerProvider: tracers, MeterProvider: meters,
		// Without propagators, the spans of a client and its server do not form one trace.
		Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
	return o, func(ctx context.Context) error { return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx)) }
}

// printer is an exporter that prints spans.
type printer struct{}

// ExportSpans implements sdktrace.SpanExporter.
func (printer) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, span := range spans {
		fmt.Printf("%s %q, with a parent: %t\n", span.SpanKind(), span.Name(), span.Parent().IsValid())
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (printer) Shutdown(context.Context) error { return nil }

// newServer returns a server that records its calls.
func newServer(o otel.Options) *server.Server {
	s := &server.Server{Name: "greeter", Middleware: []call.Middleware{otel.Server(o)}}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Say hello"},
		func(context.Context, struct{}) (string, error) { return "Hello!", nil })
	return s
}

// A client and a server record their calls in one trace.
func Example() {
	ctx := context.Background()
	metrics := sdkmetric.NewManualReader()
	options, shutdown := record("greeter", printer{}, metrics)

	s := newServer(options)
	endpoint := httptest.NewServer(s)
	d := client.Dialer{Middleware: []call.Middleware{otel.Client(options)}}
	c, err := d.Dial(ctx, client.URL(endpoint.URL))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.CallTool(ctx, "greet", nil); err != nil {
		log.Fatal(err)
	}
	var measured metricdata.ResourceMetrics
	if err := metrics.Collect(ctx, &measured); err != nil {
		log.Fatal(err)
	}

	// First the client and the server end, and then the providers that record them.
	if err := errors.Join(c.Close(), s.Shutdown(ctx)); err != nil {
		log.Fatal(err)
	}
	endpoint.Close()
	if err := shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	for _, metric := range measured.ScopeMetrics[0].Metrics {
		fmt.Println(metric.Name)
	}
	// Unordered output:
	// server "server/discover", with a parent: true
	// client "server/discover", with a parent: false
	// server "tools/call greet", with a parent: true
	// client "tools/call greet", with a parent: false
	// mcp.client.operation.duration
	// mcp.server.operation.duration
}
