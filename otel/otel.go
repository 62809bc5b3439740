package otel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mcp/parley/call"
)

// scope is the name under which spans and metrics are recorded.
const scope = "github.com/parley-mcp/parley/otel"

// Options say where to record, and what more than is safe for everybody. The zero value
// works, with OpenTelemetry's global providers.
type Options struct {
	TracerProvider trace.TracerProvider          // nil: the global one
	MeterProvider  metric.MeterProvider          // nil: the global one
	Propagator     propagation.TextMapPropagator // nil: the global one, which is none unless it is set

	// Attributes go with every span and measurement, such as network.transport=pipe
	// for a server on standard input and output, or server.address for a client. That
	// of a server over HTTP is found out.
	Attributes []attribute.KeyValue

	// PublicEndpoint begins a trace at the server, and links it to the client's: for
	// servers whose clients shall neither choose what is sampled nor bring baggage. It
	// means nothing to a client.
	PublicEndpoint bool

	// ResourceURIs, RequestIDs and Content add to spans what can be personal or secret:
	// the URIs of resources, the ids of the requests that a server gets, and tools'
	// arguments and results, of up to 4 KiB of JSON each.
	ResourceURIs bool
	RequestIDs   bool
	Content      bool
}

// Server returns middleware for server.Server. It may be used by several servers.
func Server(options Options) call.Middleware {
	return newInstrument(options, trace.SpanKindServer, "mcp.server.operation.duration",
		"MCP request or notification duration as observed on the receiver from the time it was received until the result or ack is sent.").middleware
}

// Client returns middleware for client.Dialer. It may be used by several clients.
func Client(options Options) call.Middleware {
	return newInstrument(options, trace.SpanKindClient, "mcp.client.operation.duration",
		"The duration of the MCP request or notification as observed on the sender from the time it was sent until the response or ack is received.").middleware
}

// instrument records the calls of one role.
type instrument struct {
	Options
	kind       trace.SpanKind
	tracer     trace.Tracer
	duration   metric.Float64Histogram
	operations operations
}

func newInstrument(options Options, kind trace.SpanKind, duration, description string) *instrument {
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	if options.MeterProvider == nil {
		options.MeterProvider = otel.GetMeterProvider()
	}
	if options.Propagator == nil {
		options.Propagator = otel.GetTextMapPropagator()
	}
	i := &instrument{Options: options, kind: kind, tracer: options.TracerProvider.Tracer(scope)}
	i.operations.constant, i.operations.kind = options.Attributes, kind
	var err error
	i.duration, err = options.MeterProvider.Meter(scope).Float64Histogram(duration, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300))
	if err != nil {
		otel.Handle(err)
		i.duration = noop.Float64Histogram{}
	}
	return i
}

func (i *instrument) middleware(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		begin := time.Now()
		asked := i.operations.of(ctx, c)
		ctx, span := i.start(ctx, c, asked.operation)
		if span.IsRecording() {
			i.describe(span, c, asked)
		}
		ended := panicked // unless next returns
		defer func() { i.end(ctx, span, asked, ended, time.Since(begin)) }()
		result, err := next(ctx, c)
		ended = i.judge(ctx, c, result, err)
		if i.Content && span.IsRecording() {
			recordResult(span, result)
		}
		return result, err
	}
}

// start begins the span, and carries the context over the wire: to a server in the
// request's _meta, from a client out of it.
func (i *instrument) start(ctx context.Context, c *call.Call, o *operation) (context.Context, trace.Span) {
	if i.kind == trace.SpanKindClient {
		ctx, span := i.tracer.Start(ctx, o.name, o.start...)
		i.Propagator.Inject(ctx, metaOf{c})
		return ctx, span
	}
	ambient := trace.SpanContextFromContext(ctx)
	if i.PublicEndpoint {
		remote := trace.SpanContextFromContext(i.Propagator.Extract(context.Background(), metaOf{c}))
		if !remote.IsValid() {
			return i.tracer.Start(ctx, o.name, o.start...)
		}
		return i.tracer.Start(ctx, o.name, linked(o.start, remote)...)
	}
	ctx = i.Propagator.Extract(ctx, metaOf{c})
	if remote := trace.SpanContextFromContext(ctx); ambient.IsValid() && !remote.Equal(ambient) {
		return i.tracer.Start(ctx, o.name, linked(o.start, ambient)...)
	}
	return i.tracer.Start(ctx, o.name, o.start...)
}

func linked(options []trace.SpanStartOption, to trace.SpanContext) []trace.SpanStartOption {
	return append(options[:len(options):len(options)], trace.WithLinks(trace.Link{SpanContext: to}))
}

// end ends the span and takes the measurement.
func (i *instrument) end(ctx context.Context, span trace.Span, asked asked, ended ending, took time.Duration) {
	o := asked.operation
	if ended.proves && !asked.known {
		if o = i.operations.learn(asked); o != asked.operation {
			span.SetName(o.name)
		}
	}
	if span.IsRecording() {
		if ended.errorType != "" {
			span.SetStatus(codes.Error, ended.message)
		}
		span.SetAttributes(ended.attributes()...)
	}
	span.End()
	if !i.duration.Enabled(ctx) {
		return
	}
	if attributes := ended.measured(); len(attributes) > 0 {
		i.duration.Record(ctx, took.Seconds(), metric.WithAttributes(append(attributes, o.attributes...)...))
	} else {
		i.duration.Record(ctx, took.Seconds(), o.measure...)
	}
}
