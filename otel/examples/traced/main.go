// Command traced is a server over HTTP that records a span for each request. It prints the spans. A program with a
// collector uses the exporter of otlptracehttp.New(ctx) instead of printer, from the package
// go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp.
//
//	go run ./otel/examples/traced
//	parley call http://127.0.0.1:8080/mcp greet
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
)

// printer is an exporter that prints spans.
type printer struct{}

// ExportSpans implements sdktrace.SpanExporter.
func (printer) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, span := range spans {
		fmt.Println(span.SpanKind(), span.Name())
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (printer) Shutdown(context.Context) error { return nil }

// newServer returns a server that records its requests.
func newServer(tracers *sdktrace.TracerProvider) *server.Server {
	o := otel.Options{TracerProvider: tracers, Propagator: propagation.TraceContext{}}
	s := &server.Server{Name: "traced", Version: "1.0.0", Middleware: []call.Middleware{otel.Server(o)}}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Say hello"},
		func(context.Context, struct{}) (string, error) { return "Hello!", nil })
	return s
}

func run(ctx context.Context, address string, spans sdktrace.SpanExporter) error {
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "traced"))))
	err := newServer(tracers).ListenAndServe(ctx, address) // serves until ctx ends
	rest, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, tracers.Shutdown(rest)) // sends the remaining spans
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "127.0.0.1:8080", printer{}); err != nil {
		log.Fatal(err)
	}
}
