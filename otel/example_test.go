package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// This example prints the spans of a client and a server. A program sends its spans to a collector, with an exporter such
// as that of go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	options := otel.Options{TracerProvider: provider, Propagator: propagation.TraceContext{}}

	s := &server.Server{Name: "greeter", Middleware: []call.Middleware{otel.Server(options)}}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Say hello"},
		func(context.Context, struct{}) (string, error) { return "Hello!", nil })
	near, far := transport.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(context.Background(), far) }()

	d := client.Dialer{Middleware: []call.Middleware{otel.Client(options)}}
	c, err := d.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.CallTool(context.Background(), "greet", nil); err != nil {
		log.Fatal(err)
	}
	c.Close()
	<-served

	for _, span := range spans.GetSpans() {
		fmt.Printf("%s %q, with a parent: %t\n", span.SpanKind, span.Name, span.Parent.IsValid())
	}
	// Output:
	// server "server/discover", with a parent: true
	// client "server/discover", with a parent: false
	// server "tools/call greet", with a parent: true
	// client "tools/call greet", with a parent: false
}
