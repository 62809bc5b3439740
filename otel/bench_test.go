package otel_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/otel"
)

var states = []struct {
	name      string
	options   otel.Options
	maxAllocs float64
}{
	{"off", otel.Options{TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(),
		Propagator: propagation.NewCompositeTextMapPropagator()}, 2},
	{"not sampled", otel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		MeterProvider:  noop.NewMeterProvider(), Propagator: propagation.TraceContext{},
	}, 6},
	{"measured, not sampled", otel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		Propagator:     propagation.TraceContext{},
	}, 6},
	{"sampled", otel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample())),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		Propagator:     propagation.TraceContext{},
	}, 20},
}

// served returns a function that runs the middleware of a server.
func served(tb testing.TB, options otel.Options) func() {
	message, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet",`+
		`"arguments":{},`+
		`"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00"}}}`), jsonrpc.Limits{})
	must.Do(tb, err)
	c := call.New(call.Description{Method: message.Method, ID: message.ID, Params: &message.Params,
		Revision: mcp.V20260728})
	result := &mcp.CallToolResult{}
	handle := otel.Server(options)(func(context.Context, *call.Call) (any, error) { return result, nil })
	ctx := context.Background()
	return func() { _, _ = handle(ctx, c) }
}

func BenchmarkServer(b *testing.B) {
	for _, state := range states {
		b.Run(state.name, func(b *testing.B) {
			serve := served(b, state.options)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

func TestMiddlewareAllocationsAreBounded(t *testing.T) {
	for _, state := range states {
		serve := served(t, state.options)
		serve()
		if n := testing.AllocsPerRun(100, serve); n > state.maxAllocs {
			t.Errorf("%s: %v allocations, want at most %v", state.name, n, state.maxAllocs)
		}
	}
}
