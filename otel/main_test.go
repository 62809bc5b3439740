package otel_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
)

// With this argument, the test binary serves standard input and output.
const asChild = "serve-as-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asChild {
		if err := child().Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child returns a server with a tool that returns the trace and the parent of its span.
func child() *server.Server {
	provider := sdktrace.NewTracerProvider()
	s := &server.Server{Middleware: []call.Middleware{otel.Server(otel.Options{TracerProvider: provider, Propagator: propagation.TraceContext{}})}}
	server.AddTool(s, mcp.Tool{Name: "where", Description: "Return the trace and the parent of the span"}, func(ctx context.Context, _ struct{}) (string, error) {
		span := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
		return span.SpanContext().TraceID().String() + " " + span.Parent().SpanID().String(), nil
	})
	return s
}

func TestTraceContinuesInChildProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			tel := newTelemetry(otel.Options{})
			d := &client.Dialer{Revision: r}
			tel.client(d)
			c, err := d.Dial(t.Context(), client.Command(self, asChild))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			where, err := client.CallTool[string](t.Context(), c, "where", nil)
			near := tel.span(t, trace.SpanKindClient, "tools/call where").SpanContext
			if err != nil || where != near.TraceID().String()+" "+near.SpanID().String() {
				t.Errorf("got %s, %v; span of the client: %v", where, err, near)
			}
		})
	}
}
