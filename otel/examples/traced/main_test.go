package main

import (
	"context"
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcptest"
)

// The name of a tool appears in the names of spans only if the tool exists.
func TestSpansAreNamed(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	c := mcptest.Dial(t, newServer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))
	must.Do(t, must.Err(c.CallTool(t.Context(), "greet", nil)))
	if _, err := c.CallTool(t.Context(), "unknown", nil); err == nil {
		t.Error("an unknown tool was called")
	}
	var names []string
	for _, span := range spans.GetSpans() {
		names = append(names, span.Name)
	}
	want := []string{"server/discover", "tools/call greet", "tools/call"}
	must.CheckThat(t, slices.Equal(names, want), "%q, want %q", names, want)
}

// The program ends what it has started when its context ends.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Check(t, run(ctx, "127.0.0.1:0", printer{}))
}
