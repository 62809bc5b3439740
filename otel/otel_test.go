package otel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
)

// telemetry records in memory.
type telemetry struct {
	spans   *tracetest.InMemoryExporter
	ended   chan struct{} // receives a value when a span has been exported
	metrics *sdkmetric.ManualReader
	options otel.Options
}

func newTelemetry(options otel.Options) *telemetry {
	t := &telemetry{spans: tracetest.NewInMemoryExporter(), ended: make(chan struct{}, 1),
		metrics: sdkmetric.NewManualReader(), options: options}
	t.options.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(t))
	t.options.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(t.metrics))
	t.options.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	return t
}

// ExportSpans implements sdktrace.SpanExporter.
func (t *telemetry) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := t.spans.ExportSpans(ctx, spans)
	select {
	case t.ended <- struct{}{}:
	default:
	}
	return err
}

// Shutdown implements sdktrace.SpanExporter.
func (t *telemetry) Shutdown(ctx context.Context) error { return t.spans.Shutdown(ctx) }

// span returns the last span of a kind and name, and waits for it: if a call was cancelled, the server's span ends
// after the client's.
func (t *telemetry) span(tb testing.TB, kind trace.SpanKind, name string) tracetest.SpanStub {
	tb.Helper()
	deadline := time.After(10 * time.Second)
	for {
		spans := t.spans.GetSpans()
		for _, s := range slices.Backward(spans) {
			if s.SpanKind == kind && s.Name == name {
				return s
			}
		}
		select {
		case <-t.ended:
		case <-deadline:
			tb.Fatalf("no span %q of kind %v in %v", name, kind, names(spans))
		}
	}
}

func names(spans tracetest.SpanStubs) (all []string) {
	for _, s := range spans {
		all = append(all, s.SpanKind.String()+" "+s.Name)
	}
	return all
}

func text(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.AsString()
		}
	}
	return ""
}

// points returns the measurements of a histogram.
func (t *telemetry) points(tb testing.TB, name string) []metricdata.HistogramDataPoint[float64] {
	tb.Helper()
	var all metricdata.ResourceMetrics
	must.Do(tb, t.metrics.Collect(tb.Context(), &all))
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name == name {
				return m.Data.(metricdata.Histogram[float64]).DataPoints
			}
		}
	}
	tb.Fatalf("no metric %s", name)
	return nil
}

func (t *telemetry) server() *server.Server {
	s := &server.Server{Name: "traced", Logger: slog.New(slog.DiscardHandler),
		Middleware: []call.Middleware{otel.Server(t.options)}}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet"},
		func(ctx context.Context, _ struct{}) (string, error) {
			return "Hello, " + baggage.FromContext(ctx).Member("who").Value() + "!", nil
		})
	server.AddTool(s, mcp.Tool{Name: "fail", Description: "Fail"}, func(context.Context, struct{}) (string, error) {
		return "", errors.New("secret reason")
	})
	server.AddTool(s, mcp.Tool{Name: "break", Description: "Answer with an error"},
		func(context.Context, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: 1234, Message: "broken"}
		})
	server.AddTool(s, mcp.Tool{Name: "hang", Description: "Wait until it is cancelled"},
		func(ctx context.Context, _ struct{}) (string, error) {
			_ = server.Progress(ctx, 1, 2, "")
			<-ctx.Done()
			return "", ctx.Err()
		})
	server.AddTool(s, mcp.Tool{Name: "ask", Description: "Ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[struct {
			Name string `json:"name"`
		}](ctx, "who?")
		return form.Name, err
	})
	return s
}

func (t *telemetry) client(d *client.Dialer) {
	d.Middleware = []call.Middleware{otel.Client(t.options)}
	d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]any{"name": "Ada"})
	}
}

// A call is one trace and carries its baggage, on every transport in every revision.
func TestSpanOfServerIsChildOfClientSpan(t *testing.T) {
	for _, r := range mcp.Revisions() {
		for _, tr := range mcptest.Transports() {
			if !tr.Supports(r) {
				continue
			}
			t.Run(string(r)+"/"+tr.Name, func(t *testing.T) {
				tel := newTelemetry(otel.Options{})
				c := tr.Dial(t, tel.server(), mcptest.WithRevision(r), tel.client)
				checkTrace(t, tel, c)
				where := text(tel.span(t, trace.SpanKindServer, "tools/call greet"), "network.protocol.name")
				must.CheckEqual(t, strings.HasPrefix(tr.Name, "http"), where == "http", where)
			})
		}
	}
}

func checkTrace(t *testing.T, tel *telemetry, c *client.Client) {
	t.Helper()
	who, _ := baggage.NewMember("who", "Ada")
	bag, _ := baggage.New(who)
	ctx, root := tel.options.TracerProvider.Tracer("test").Start(baggage.ContextWithBaggage(t.Context(), bag), "agent")
	answer, err := client.CallTool[string](ctx, c, "greet", nil)
	root.End()
	must.That(t, err == nil && answer == "Hello, Ada!", "%q, %v", answer, err)
	near, far := tel.span(t, trace.SpanKindClient, "tools/call greet"),
		tel.span(t, trace.SpanKindServer, "tools/call greet")
	if near.Parent.SpanID() != root.SpanContext().SpanID() || far.Parent.SpanID() != near.SpanContext.SpanID() ||
		far.SpanContext.TraceID() != root.SpanContext().TraceID() {
		t.Errorf("spans must be parent and child: %v, %v, %v", root.SpanContext(), near.SpanContext, far.SpanContext)
	}
	for _, s := range []tracetest.SpanStub{near, far} {
		for key, want := range map[attribute.Key]string{
			"mcp.method.name": "tools/call", "mcp.protocol.version": string(c.Revision()),
			"gen_ai.operation.name": "execute_tool",
			"gen_ai.tool.name":      "greet", "error.type": "", "jsonrpc.request.id": "",
			"gen_ai.tool.call.arguments": "",
		} {
			must.CheckEqual(t, text(s, key), want, s.SpanKind, key)
		}
		must.CheckEqual(t, s.Status.Code, codes.Unset, s.SpanKind, s.Status)
	}
}

// Both roles record the same failures, except that an invalid request is not a failure of the server.
func TestFailuresHaveTypeAndStatus(t *testing.T) {
	for _, test := range []struct {
		tool, near, far, code string
	}{
		{"fail", "tool_error", "tool_error", ""},
		{"break", "1234", "1234", "1234"},
		{"unknown", "-32602", "", "-32602"},
	} {
		t.Run(test.tool, func(t *testing.T) {
			tel := newTelemetry(otel.Options{})
			c := mcptest.Dial(t, tel.server(), tel.client)
			_, _ = client.CallTool[string](t.Context(), c, test.tool, nil)
			name := "tools/call"
			if test.near == "tool_error" {
				name += " " + test.tool
			}
			for kind, want := range map[trace.SpanKind]string{trace.SpanKindClient: test.near,
				trace.SpanKindServer: test.far} {
				s := tel.span(t, kind, name)
				if got := text(s, "error.type"); got != want || (want != "") != (s.Status.Code == codes.Error) ||
					text(s, "rpc.response.status_code") != test.code {
					t.Errorf("%v: error.type %q, status %v, code %q", kind, got, s.Status,
						text(s, "rpc.response.status_code"))
				}
				must.CheckEqual(t, text(s, "gen_ai.tool.name"), test.tool, kind)
				must.CheckThat(t, !strings.Contains(s.Status.Description, "secret"), "%v: %v", kind, s.Status)
			}
		})
	}
}

func TestCancelledCallsHaveErrorType(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			tel := newTelemetry(otel.Options{})
			c := mcptest.Dial(t, tel.server(), tel.client, mcptest.WithRevision(r))
			ctx, cancel := context.WithCancel(t.Context())
			_, err := c.CallTool(ctx, "hang", nil, client.WithProgress(func(float64, float64, string) { cancel() }))
			must.Is(t, err, context.Canceled)
			for _, kind := range []trace.SpanKind{trace.SpanKindClient, trace.SpanKindServer} {
				name := "tools/call" // the client did not receive a result of the tool
				if kind == trace.SpanKindServer {
					name = "tools/call hang"
				}
				must.CheckEqual(t, text(tel.span(t, kind, name), "error.type"), "cancelled", kind)
			}
		})
	}
}

func TestTimeoutsHaveErrorType(t *testing.T) {
	tel := newTelemetry(otel.Options{})
	c := mcptest.Dial(t, tel.server(), tel.client)
	must.Is(t, must.Err(c.CallTool(t.Context(), "hang", nil, client.WithTimeout(time.Millisecond))),
		context.DeadlineExceeded)
	must.CheckEqual(t, text(tel.span(t, trace.SpanKindClient, "tools/call"), "error.type"), "timeout")
}

// A span of the client covers all rounds. The spans of the server are its children, and the first has the outcome
// input_required.
func TestRoundsAreSpansOfOneCall(t *testing.T) {
	tel := newTelemetry(otel.Options{})
	c := mcptest.Dial(t, tel.server(), tel.client)
	must.Equal(t, must.Get(client.CallTool[string](t.Context(), c, "ask", nil))(t), "Ada")
	near := tel.span(t, trace.SpanKindClient, "tools/call ask")
	var outcomes []string
	for _, s := range tel.spans.GetSpans() {
		if s.SpanKind == trace.SpanKindServer && s.Name == "tools/call ask" {
			must.CheckThat(t, s.Parent.SpanID() == near.SpanContext.SpanID() && text(s, "error.type") == "", "%+v", s)
			outcomes = append(outcomes, text(s, "parley.outcome"))
		}
	}
	must.CheckThat(t, slices.Equal(outcomes, []string{"input_required", ""}), "outcomes of the rounds: %q", outcomes)
}

func TestUnknownToolsCreateNoTimeSeries(t *testing.T) {
	tel := newTelemetry(otel.Options{Attributes: []attribute.KeyValue{attribute.String("network.transport", "pipe")}})
	c := mcptest.Dial(t, tel.server(), tel.client)
	for i := range 20 {
		_, _ = c.CallTool(t.Context(), "unknown "+strings.Repeat("x", i), nil)
		_, _ = c.CallTool(t.Context(), "greet", nil)
	}
	for _, name := range []string{"mcp.server.operation.duration", "mcp.client.operation.duration"} {
		counts := make(map[string]uint64)
		for _, p := range tel.points(t, name) {
			method, _ := p.Attributes.Value("mcp.method.name")
			tool, _ := p.Attributes.Value("gen_ai.tool.name")
			code, _ := p.Attributes.Value("rpc.response.status_code")
			counts[method.AsString()+" "+tool.AsString()+" "+code.AsString()] += p.Count
			if over, _ := p.Attributes.Value("network.transport"); over.AsString() != "pipe" || p.Sum <= 0 ||
				p.Bounds[0] != 0.01 {
				t.Errorf("%s: %+v", name, p)
			}
		}
		must.CheckThat(t, len(counts) == 3 && counts["tools/call greet "] == 20 && counts["tools/call  -32602"] == 20 &&
			counts["server/discover  "] == 1, "%s: %v", name, counts)
	}
}

// Spans contain every error code.
func TestUnboundedErrorCodesCreateNoTimeSeries(t *testing.T) {
	tel := newTelemetry(otel.Options{})
	s := tel.server()
	code := int64(0)
	server.AddTool(s, mcp.Tool{Name: "count"}, func(context.Context, struct{}) (string, error) {
		code++
		return "", &jsonrpc.Error{Code: code, Message: "failed"}
	})
	c := mcptest.Dial(t, s, tel.client)
	for range 10 {
		_, _ = client.CallTool[string](t.Context(), c, "count", nil)
	}
	for _, name := range []string{"mcp.server.operation.duration", "mcp.client.operation.duration"} {
		series := 0
		for _, p := range tel.points(t, name) {
			if method, _ := p.Attributes.Value("mcp.method.name"); method.AsString() != mcp.MethodCallTool {
				continue
			}
			series++
			for _, key := range []attribute.Key{"rpc.response.status_code", "error.type"} {
				if got, _ := p.Attributes.Value(key); got.AsString() != "_OTHER" {
					t.Errorf("%s: %s is %q", name, key, got.AsString())
				}
			}
		}
		must.CheckEqual(t, series, 1, name, "time series")
	}
	must.CheckEqual(t, text(tel.span(t, trace.SpanKindClient, "tools/call"), "error.type"), "10")
}

func TestPersonalDataIsRecordedOnRequest(t *testing.T) {
	tel := newTelemetry(otel.Options{ResourceURIs: true, RequestIDs: true, Content: true})
	s := tel.server()
	server.AddResource(s, mcp.Resource{URI: "demo://a", Name: "a"},
		func(context.Context) (string, error) { return "a", nil })
	c := mcptest.Dial(t, s, tel.client)
	must.Do(t, must.Err(c.ReadResource(t.Context(), "demo://a")))
	must.Do(t, must.Err(c.CallTool(t.Context(), "greet", struct{}{})))
	for _, kind := range []trace.SpanKind{trace.SpanKindClient, trace.SpanKindServer} {
		must.CheckEqual(t, text(tel.span(t, kind, "resources/read"), "mcp.resource.uri"), "demo://a", kind)
		greeting := tel.span(t, kind, "tools/call greet")
		must.CheckEqual(t, text(greeting, "gen_ai.tool.call.arguments"), "{}", kind)
		must.CheckContains(t, text(greeting, "gen_ai.tool.call.result"), "Hello", kind)
	}
	id := text(tel.span(t, trace.SpanKindServer, "tools/call greet"), "jsonrpc.request.id")
	must.CheckThat(t, id != "", "jsonrpc.request.id is missing")
}

// Without trace context in _meta, the span of the transport is the parent.
func TestSpanOfTransportIsLinked(t *testing.T) {
	for name, propagated := range map[string]bool{"linked": true, "parent": false} {
		t.Run(name, func(t *testing.T) {
			tel := newTelemetry(otel.Options{})
			var transport trace.SpanContext
			s := tel.server()
			s.Middleware = append([]call.Middleware{func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					ctx, span := tel.options.TracerProvider.Tracer("test").Start(ctx, "POST")
					defer span.End()
					transport = span.SpanContext()
					return next(ctx, c)
				}
			}}, s.Middleware...)
			var configure []func(*client.Dialer)
			if propagated {
				configure = append(configure, tel.client)
			}
			c := mcptest.Dial(t, s, configure...)
			must.Do(t, must.Err(c.CallTool(t.Context(), "greet", nil)))
			far := tel.span(t, trace.SpanKindServer, "tools/call greet")
			switch {
			case propagated && (len(far.Links) != 1 || !far.Links[0].SpanContext.Equal(transport)):
				t.Errorf("links are %v", far.Links)
			case !propagated && (len(far.Links) != 0 || far.Parent.SpanID() != transport.SpanID()):
				t.Errorf("parent is %v, links are %v", far.Parent, far.Links)
			}
		})
	}
}

func TestPublicEndpointIgnoresTraceAndBaggageOfClient(t *testing.T) {
	tel := newTelemetry(otel.Options{PublicEndpoint: true})
	c := mcptest.Dial(t, tel.server(), tel.client)
	who, _ := baggage.NewMember("who", "Ada")
	bag, _ := baggage.New(who)
	must.Equal(t, must.Get(client.CallTool[string](baggage.ContextWithBaggage(t.Context(), bag), c, "greet", nil))(t),
		"Hello, !")
	near, far := tel.span(t, trace.SpanKindClient, "tools/call greet"),
		tel.span(t, trace.SpanKindServer, "tools/call greet")
	must.CheckThat(t, far.SpanContext.TraceID() != near.SpanContext.TraceID() && len(far.Links) == 1 &&
		far.Links[0].SpanContext.SpanID() == near.SpanContext.SpanID(),
		"span %v of client span %v, links %v", far.SpanContext, near.SpanContext, far.Links)
}

func TestPanicEndsSpanWithInternalError(t *testing.T) {
	tel := newTelemetry(otel.Options{})
	s := tel.server()
	s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodCallTool {
				panic("failed")
			}
			return next(ctx, c)
		}
	})
	c := mcptest.Dial(t, s, tel.client)
	_, _ = c.CallTool(t.Context(), "greet", nil)
	must.CheckEqual(t, text(tel.span(t, trace.SpanKindServer, "tools/call"), "error.type"), "-32603")
}

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
	s := &server.Server{Middleware: []call.Middleware{otel.Server(otel.Options{TracerProvider: provider,
		Propagator: propagation.TraceContext{}})}}
	server.AddTool(s, mcp.Tool{Name: "where", Description: "Return the trace and the parent of the span"},
		func(ctx context.Context, _ struct{}) (string, error) {
			span := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
			return span.SpanContext().TraceID().String() + " " + span.Parent().SpanID().String(), nil
		})
	return s
}

func TestTraceContinuesInChildProcess(t *testing.T) {
	self := must.Get(os.Executable())(t)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			tel := newTelemetry(otel.Options{})
			d := &client.Dialer{Revision: r}
			tel.client(d)
			c := must.Get(d.Dial(t.Context(), client.Command(self, asChild)))(t)
			defer c.Close()
			where, err := client.CallTool[string](t.Context(), c, "where", nil)
			near := tel.span(t, trace.SpanKindClient, "tools/call where").SpanContext
			must.CheckThat(t, err == nil && where == near.TraceID().String()+" "+near.SpanID().String(),
				"got %s, %v; span of the client: %v", where, err, near)
		})
	}
}
