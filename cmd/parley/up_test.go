package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
)

// parley up declares the extensions of its configuration and forwards their methods in every revision, and follows
// changes of the file.
func TestUpForwardsTheExtensionsOfItsConfiguration(t *testing.T) {
	const id = "com.example/jobs"
	builds := &server.Server{Name: "builds"}
	server.AddExtension(builds, server.Extension{ID: id,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			"jobs/run": func(_ context.Context, params json.RawMessage) (any, error) {
				return map[string]any{"ran": true}, nil
			},
		}})
	upstream := httptest.NewServer(builds)
	defer upstream.Close()
	config := filepath.Join(t.TempDir(), "mcp.json")
	write := func(extensions string) {
		t.Helper()
		text := `{"mcpServers":{"builds":{"url":"` + upstream.URL + `"` + extensions + `}}}`
		must.Do(t, os.WriteFile(config+".new", []byte(text), 0o600))
		must.Do(t, os.Rename(config+".new", config))
	}
	const extended = `,"extensions":{"com.example/jobs":{"settings":{"queue":"a"},"requests":["jobs/run"]}}`
	write(extended)
	url := startParley(t, `http://[0-9.:]+/mcp`, "up", "--config", config, "--addr", "127.0.0.1:0")
	for _, state := range []struct {
		extensions string
		works      bool
	}{{extended, true}, {"", false}, {extended, true}} {
		write(state.extensions)
		for _, r := range mcp.Revisions() {
			deadline := time.Now().Add(waitLimit)
			for { // until the file was read
				d := client.Dialer{Revision: r, Extensions: []client.Extension{{ID: id}}}
				c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
				settings, declared := c.Server().Extension(id)
				result, err := c.CallExtension(t.Context(), "jobs/run", nil)
				works := err == nil && strings.Contains(string(result), `"ran":true`)
				must.Check(t, c.Close())
				if works == state.works && declared == state.works &&
					(!declared || string(settings) == `{"queue":"a"}`) {
					break
				}
				must.That(t, !time.Now().After(deadline),
					"%s with %q: declared %t (%s), result %s, %v", r, state.extensions, declared, settings, result, err)
			}
		}
	}
}

func TestFlagsOfTheEndpointRequireHTTP(t *testing.T) {
	for _, flag := range []string{"--allow-host=a", "--allow-origin=a", "--public-url=a", "--tls-cert=a",
		"--tls-key=a"} {
		for _, args := range [][]string{{"serve", "--stdio"}, {"up", "--stdio"}, {"bridge", "server"},
			{"mock", "file"}} {
			cmd := newRoot()
			cmd.SetArgs(append(args, flag))
			cmd.SetOut(io.Discard)
			cmd.SetErr(new(bytes.Buffer))
			name, _, _ := strings.Cut(flag, "=")
			err := cmd.ExecuteContext(t.Context())
			must.CheckThat(t, err != nil && strings.HasPrefix(err.Error(), name+" only works over HTTP"),
				"%v %s: %v", args, flag, err)
		}
	}
}

// collector receives spans, as "KIND NAME", and metrics.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   map[string]*tracepb.Span
	metrics []string
	changed chan struct{} // capacity 1
}

func newCollector(t *testing.T) *collector {
	c := &collector{spans: make(map[string]*tracepb.Span), changed: make(chan struct{}, 1)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var traces tracepb.TracesData
	var metrics metricspb.MetricsData
	if r.URL.Path == "/v1/traces" {
		err = errors.Join(err, proto.Unmarshal(body, &traces))
	} else {
		err = errors.Join(err, proto.Unmarshal(body, &metrics))
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "bad request", http.StatusBadRequest)
	}
	for _, of := range traces.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans[strings.TrimPrefix(span.Kind.String(), "SPAN_KIND_")+" "+span.Name] = span
			}
		}
	}
	for _, of := range metrics.ResourceMetrics {
		for _, scope := range of.ScopeMetrics {
			for _, m := range scope.Metrics {
				c.metrics = append(c.metrics, m.Name)
			}
		}
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// await waits until the collector has received spans and metrics.
func (c *collector) await(t *testing.T, spans, metrics []string) {
	t.Helper()
	timeout := time.After(waitLimit)
	for {
		c.mu.Lock()
		missing := slices.DeleteFunc(slices.Clone(spans), func(name string) bool { return c.spans[name] != nil })
		missing = append(missing, slices.DeleteFunc(slices.Clone(metrics),
			func(name string) bool { return slices.Contains(c.metrics, name) })...)
		c.mu.Unlock()
		if len(missing) == 0 {
			return
		}
		select {
		case <-c.changed:
		case <-timeout:
			t.Fatalf("the collector has not received %q", missing)
		}
	}
}

// tracedServer returns the URL of a server with the tool echo, and a function that returns the trace context of its
// last call.
func tracedServer(t *testing.T) (url string, parent func() string) {
	var last atomic.Pointer[string]
	s := &server.Server{Name: "far", Middleware: []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodCallTool {
				last.Store(new(jsonrpc.Unquote(c.Meta("traceparent"))))
			}
			return next(ctx, c)
		}
	}}}
	server.AddTool(s, mcp.Tool{Name: "echo", Description: "Return nothing"},
		func(context.Context, struct{}) (string, error) { return "", nil })
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return web.URL, func() string { return *last.Load() }
}

// A trace goes from the caller through the gateway to the server, and the end of the program exports the last spans.
func TestTracesGoThroughTheGateway(t *testing.T) {
	far, parent := tracedServer(t)
	config := filepath.Join(t.TempDir(), "mcp.json")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers":{"far":{"url":%q}}}`, far), 0o600))
	for _, args := range [][]string{
		{"up", "--config", config, "--addr", "127.0.0.1:0"},
		{"up", "--config", config, "--stdio"},
		{"bridge", far, "--addr", "127.0.0.1:0"},
		{"bridge", far},
	} {
		t.Run(strings.Join(args[:1], " ")+args[len(args)-2], func(t *testing.T) {
			c, tool := newCollector(t), "echo"
			if args[0] == "up" {
				tool = "far__echo"
			}
			own := sdktrace.NewTracerProvider()
			d := client.Dialer{
				Name: "caller", Middleware: []call.Middleware{otel.Client(otel.Options{TracerProvider: own,
					Propagator: propagation.TraceContext{}})},
			}
			args := append(args, "--otlp", c.URL)
			t.Run("call", func(t *testing.T) { // the program ends with it
				var target client.Target
				if slices.Contains(args, "127.0.0.1:0") {
					at := startParley(t, `http://127\.0\.0\.1:\d+/mcp`, args...)
					target = &client.HTTPTarget{URL: at}
				} else {
					command := &client.CommandTarget{}
					command.Path, command.Args, command.InheritEnv = "parley", args, true
					command.Env = []string{"PARLEY_CONFIG_DIR=" + t.TempDir(), "PARLEY_NO_KEYRING=1",
						"GORACE=atexit_sleep_ms=0"}
					target = command
				}
				mine := must.Get(d.Dial(t.Context(), target))(t)
				defer mine.Close()
				ctx, root := own.Tracer("test").Start(t.Context(), "root")
				defer root.End()
				awaitTool(t, mine, tool)
				must.Do(t, must.Err(mine.CallTool(ctx, tool, nil)))
				trace := root.SpanContext().TraceID().String()
				if got := parent(); !strings.HasPrefix(got, "00-"+trace+"-") {
					t.Errorf("the server received the trace context %q of trace %s", got, trace)
				}
			})
			c.await(t, []string{"SERVER tools/call " + tool, "CLIENT tools/call echo"},
				[]string{"mcp.server.operation.duration", "mcp.client.operation.duration"})
			inner, outer := c.spans["CLIENT tools/call echo"], c.spans["SERVER tools/call "+tool]
			if want := hex.EncodeToString(inner.TraceId) + "-" +
				hex.EncodeToString(inner.SpanId); !strings.Contains(parent(), want) ||
				!bytes.Equal(inner.TraceId, outer.TraceId) ||
				!bytes.Equal(inner.ParentSpanId, outer.SpanId) {
				t.Errorf("the server received the trace context %q, want %s", parent(), want)
			}
		})
	}
}

// awaitTool waits until the gateway has the tools of its servers.
func awaitTool(t *testing.T, c *client.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for {
		for tool, err := range c.Tools(ctx) {
			must.Do(t, err)
			if tool.Name == name {
				return
			}
		}
	}
}

// The trace of a request that names none in its _meta is that of its headers.
func TestTraceOfARequestIsThatOfItsHeaders(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	c := newCollector(t)
	t.Run("call", func(t *testing.T) {
		at := startParley(t, `http://127\.0\.0\.1:\d+/mcp`, "serve", "--addr", "127.0.0.1:0", "--otlp", c.URL)
		const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
			`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(initialize)))(t)
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Traceparent": {"00-" + trace + "-b7ad6b7169203331-01"}, "Baggage": {"user=1"},
		}
		resp := must.Get(http.DefaultClient.Do(r))(t)
		resp.Body.Close()
	})
	c.await(t, []string{"SERVER initialize"}, nil)
	span := c.spans["SERVER initialize"]
	must.CheckThat(t, hex.EncodeToString(span.TraceId) == trace &&
		hex.EncodeToString(span.ParentSpanId) == "b7ad6b7169203331", "span %v", span)
}
