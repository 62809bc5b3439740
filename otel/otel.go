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

// scope is the instrumentation scope of spans and metrics.
const scope = "github.com/parley-mcp/parley/otel"

// Options configure what is recorded and where. The zero value records no personal data, with OpenTelemetry's global
// providers.
type Options struct {
	TracerProvider trace.TracerProvider // nil: the global provider
	MeterProvider  metric.MeterProvider // nil: the global provider
	// nil: the global propagator, which does nothing unless a program sets it
	Propagator propagation.TextMapPropagator

	// Attributes are added to every span and measurement, for example network.transport=pipe for a server on
	// standard input and output, or server.address for a client. The attributes of HTTP are added to spans of a
	// server without them.
	Attributes []attribute.KeyValue

	// PublicEndpoint makes a server start a new trace for each request, with a link to the trace of the client, and
	// ignore the client's baggage. Set it if clients must not choose which requests are sampled. Clients ignore it.
	PublicEndpoint bool

	// ResourceURIs, RequestIDs and Content add data to spans that can be personal or secret: the URIs of resources,
	// the ids of requests that a server receives, and the arguments and results of tools, up to 4 KiB of JSON each.
	ResourceURIs bool
	RequestIDs   bool
	Content      bool
}

// Server returns middleware for server.Server. Several servers may share it.
func Server(options Options) call.Middleware {
	return newInstrument(options, trace.SpanKindServer, "mcp.server.operation.duration",
		"MCP request or notification duration as observed on the receiver from the time it was received until the "+
			"result or ack is sent.").middleware
}

// Client returns middleware for client.Dialer. Several clients may share it.
func Client(options Options) call.Middleware {
	return newInstrument(options, trace.SpanKindClient, "mcp.client.operation.duration",
		"The duration of the MCP request or notification as observed on the sender from the time it was sent until "+
			"the response or ack is received.").middleware
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
	i.duration, err = options.MeterProvider.Meter(scope).Float64Histogram(duration, metric.WithUnit("s"),
		metric.WithDescription(description),
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
		req := i.operations.request(ctx, c)
		ctx, span := i.start(ctx, c, req.operation)
		if span.IsRecording() {
			i.describe(span, c, req)
		}
		out := panicked // until next returns
		defer func() { i.end(ctx, span, req, out, time.Since(begin)) }()
		result, err := next(ctx, c)
		out = i.outcomeOf(ctx, c, result, err)
		if i.Content && span.IsRecording() {
			recordResult(span, result)
		}
		return result, err
	}
}

// start starts the span. A client writes its trace context to the _meta of the request, and a server reads it there.
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

// end ends the span and records the duration.
func (i *instrument) end(ctx context.Context, span trace.Span, req request, out outcome, took time.Duration) {
	o := req.operation
	if out.nameExists && !req.hasName {
		if o = i.operations.learn(req); o != req.operation {
			span.SetName(o.name)
		}
	}
	if span.IsRecording() {
		if out.errorType != "" {
			span.SetStatus(codes.Error, out.message)
		}
		span.SetAttributes(out.attributes()...)
	}
	span.End()
	if !i.duration.Enabled(ctx) {
		return
	}
	if attributes := out.metricAttributes(); len(attributes) > 0 {
		i.duration.Record(ctx, took.Seconds(), metric.WithAttributes(append(attributes, o.attributes...)...))
	} else {
		i.duration.Record(ctx, took.Seconds(), o.measure...)
	}
}
