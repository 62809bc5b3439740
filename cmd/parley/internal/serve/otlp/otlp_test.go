package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector receives what an Exporter sends.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	traces  []*tracepb.ResourceSpans
	metrics []*metricspb.ResourceMetrics
	headers []http.Header
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	text, err := io.ReadAll(body)
	var traces tracepb.TracesData
	var metrics metricspb.MetricsData
	switch r.URL.Path {
	case "/base/v1/traces":
		err = errors.Join(err, proto.Unmarshal(text, &traces))
		c.traces = append(c.traces, traces.ResourceSpans...)
	case "/base/v1/metrics":
		err = errors.Join(err, proto.Unmarshal(text, &metrics))
		c.metrics = append(c.metrics, metrics.ResourceMetrics...)
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil || r.Method != http.MethodPost {
		http.Error(w, "bad request", http.StatusBadRequest)
	}
}

// log collects what an Exporter reports.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(level string) func(string) {
	return func(text string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, level+text)
	}
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func options(env map[string]string) (Options, *log) {
	l := new(log)
	return Options{Getenv: func(name string) string {
		return env[name]
	}, Service: "parley", Version: "v1", Warn: l.add("warning: "), Note: l.add("")}, l
}

func words(attributes []*commonpb.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, a := range attributes {
		m[a.Key] = strings.Join(strings.Fields(a.Value.String()), "") // protobuf varies the spaces
	}
	return m
}

func TestTracesAndMetricsReachTheCollector(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_SERVICE_NAME", "gateway") // OpenTelemetry reads the process's
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=tools,service.name=other")
	o, log := options(map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/base/", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, X-Tenant = one",
		"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "gzip",
	})
	e := must.Get(Start(o))(t)
	tracer := e.Traces.Tracer("scope")
	ctx, parent := tracer.Start(t.Context(), "tools/call", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.Int("n", 7)))
	_, child := tracer.Start(ctx, "inner")
	child.End()
	parent.End()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(e.Metrics), sdkmetric.WithResource(e.Resource))
	meter := provider.Meter("scope")
	count, _ := meter.Int64Counter("count")
	count.Add(ctx, 3, metric.WithAttributes(attribute.String("tool", "greet")))
	level, _ := meter.Float64Gauge("level")
	level.Record(ctx, 1.5)
	took, _ := meter.Float64Histogram("took", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(1, 10))
	took.Record(ctx, 0.5)
	took.Record(ctx, 5)
	for _, err := range []error{e.Traces.Shutdown(t.Context()), provider.Shutdown(t.Context())} {
		must.Check(t, err)
	}

	if len(log.all()) > 0 || len(c.traces) != 1 || len(c.metrics) != 1 {
		t.Fatalf("%d and %d resources, reported %q", len(c.traces), len(c.metrics), log.all())
	}
	for _, h := range c.headers {
		if h.Get("Api-Key") != "a b" || h.Get("X-Tenant") != "one" ||
			h.Get("Content-Type") != "application/x-protobuf" || !strings.HasPrefix(h.Get("User-Agent"), "Parley ") {
			t.Errorf("headers %v", h)
		}
	}
	for _, attributes := range []map[string]string{words(c.traces[0].Resource.Attributes),
		words(c.metrics[0].Resource.Attributes)} {
		if attributes["service.name"] != `string_value:"gateway"` || attributes["team"] != `string_value:"tools"` ||
			attributes["service.version"] != `string_value:"v1"` {
			t.Errorf("resource %v", attributes)
		}
	}
	spans := c.traces[0].ScopeSpans[0].Spans
	if len(spans) != 2 || spans[0].Name != "inner" || !bytes.Equal(spans[0].ParentSpanId, spans[1].SpanId) ||
		spans[1].Kind != tracepb.Span_SPAN_KIND_SERVER ||
		words(spans[1].Attributes)["n"] != "int_value:7" {
		t.Errorf("spans %v", spans)
	}
	found := make(map[string]*metricspb.Metric)
	for _, m := range c.metrics[0].ScopeMetrics[0].Metrics {
		found[m.Name] = m
	}
	sum := found["count"].GetSum()
	if p := sum.DataPoints[0]; p.GetAsInt() != 3 || !sum.IsMonotonic ||
		words(p.Attributes)["tool"] != `string_value:"greet"` || p.StartTimeUnixNano == 0 ||
		p.TimeUnixNano < p.StartTimeUnixNano ||
		sum.AggregationTemporality != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
		t.Errorf("sum %v", sum)
	}
	if v := found["level"].GetGauge().DataPoints[0].GetAsDouble(); v != 1.5 {
		t.Errorf("gauge %v", v)
	}
	if h := found["took"].GetHistogram().DataPoints[0]; h.Count != 2 || h.GetSum() != 5.5 || h.GetMin() != 0.5 ||
		h.GetMax() != 5 || !slices.Equal(h.BucketCounts, []uint64{1, 1, 0}) ||
		!slices.Equal(h.ExplicitBounds, []float64{1, 10}) || found["took"].Unit != "s" {
		t.Errorf("histogram %v", found["took"])
	}
}

// The URLs that the signals are sent to, which the specification of the exporter has as examples.
func TestVariablesSayWhatIsExportedAndWhere(t *testing.T) {
	type env = map[string]string
	for name, tc := range map[string]struct {
		flag            string
		env             env
		traces, metrics string
	}{
		"nothing": {},
		"one endpoint": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
			traces: "http://collector:4318/v1/traces", metrics: "http://collector:4318/v1/metrics"},
		"a base path": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/my/"},
			traces: "http://collector:4318/my/v1/traces", metrics: "http://collector:4318/my/v1/metrics"},
		"endpoints of signals": {env: env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318",
			"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://other/v1/metrics/"}, traces: "http://collector:4318/",
			metrics: "https://other/v1/metrics/"},
		"traces alone": {env: env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"},
			traces: "http://collector:4318/v1/traces"},
		"the default endpoint": {env: env{"OTEL_TRACES_EXPORTER": "otlp"}, traces: "http://localhost:4318/v1/traces"},
		"no traces": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
			"OTEL_TRACES_EXPORTER": "none"}, metrics: "http://collector:4318/v1/metrics"},
		"metrics by Prometheus": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
			"OTEL_METRICS_EXPORTER": "prometheus"}, traces: "http://collector:4318/v1/traces"},
		"both exporters": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
			"OTEL_METRICS_EXPORTER": "prometheus, OTLP"}, traces: "http://collector:4318/v1/traces",
			metrics: "http://collector:4318/v1/metrics"},
		"the flag": {flag: "http://flag:4318",
			env: env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318",
				"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, traces: "http://flag:4318/v1/traces",
			metrics: "http://flag:4318/v1/metrics"},
		"the flag, no metrics": {flag: "http://flag:4318", env: env{"OTEL_METRICS_EXPORTER": "none"},
			traces: "http://flag:4318/v1/traces"},
		"an empty variable": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": " "}},
	} {
		o, log := options(tc.env)
		o.URL = tc.flag
		s, got := settings{o}, [2]string{}
		for i, signal := range []string{"traces", "metrics"} {
			c, err := s.client(signal, nil)
			if err != nil {
				t.Error(name, err)
			}
			if c != nil {
				got[i] = c.url
			}
		}
		if diff := cmp.Diff([2]string{tc.traces, tc.metrics}, got); diff != "" || len(log.all()) > 0 {
			t.Errorf("%s: %s reported %q", name, diff, log.all())
		}
	}
}

func TestWhatIsNotSupportedIsReportedWithoutSecrets(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT"
	invalid := filepath.Join(t.TempDir(), "roots.pem")
	must.Do(t, os.WriteFile(invalid, []byte("none"), 0o600))
	for variable, tc := range map[string]struct {
		value, want string
		exports     bool
	}{
		"OTEL_SDK_DISABLED":           {"TRUE", "", false},
		"OTEL_SDK_DISABLED ":          {"yes", "write true or false", true},
		"OTEL_EXPORTER_OTLP_PROTOCOL": {"grpc", "write http/protobuf", false},
		"OTEL_EXPORTER_OTLP_ENDPOINT": {"collector:4318 secret", "must be the URL of a collector",
			false},
		"OTEL_EXPORTER_OTLP_ENDPOINT ": {"http://user:secret@collector",
			"OTEL_EXPORTER_OTLP_HEADERS", false},
		"OTEL_EXPORTER_OTLP_HEADERS":            {"api-key secret", "name=value", true},
		"OTEL_EXPORTER_OTLP_HEADERS ":           {"api-key=secret%0Ax", "name=value", true},
		"OTEL_EXPORTER_OTLP_TIMEOUT":            {"10s", "milliseconds", true},
		"OTEL_EXPORTER_OTLP_COMPRESSION":        {"zstd", "gzip or none", true},
		"OTEL_EXPORTER_OTLP_CERTIFICATE":        {invalid, "must have a certificate", false},
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": {invalid, "belong together", false},
		"OTEL_TRACES_EXPORTER":                  {"zipkin", "write otlp or none", true},
		"OTEL_PROPAGATORS": {"tracecontext,b3", "write tracecontext, baggage or none",
			true},
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": {"some", "cumulative, delta or lowmemory", true},
	} {
		env := map[string]string{at: "http://127.0.0.1:1"}
		env[strings.TrimSpace(variable)] = tc.value
		o, log := options(env)
		e, err := Start(o)
		reported := strings.Join(log.all(), "\n")
		if err != nil || (e != nil) != tc.exports || !strings.Contains(reported, tc.want) ||
			strings.Contains(reported, "secret") || (tc.want == "") != (reported == "") {
			t.Errorf("%s=%s: exports %v, %v, reported %s", variable, tc.value, e != nil, err, reported)
		}
		shutdown(t, e)
	}
	o, _ := options(nil)
	for _, flag := range []string{"collector:4318", "ftp://collector", "http://user:secret@collector"} {
		o.URL = flag
		if e, err := Start(o); e != nil || err == nil || strings.Count(err.Error(), "--otlp must be") != 1 ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func shutdown(t *testing.T, e *Exporter) {
	t.Helper()
	if e == nil {
		return
	}
	if e.Traces != nil {
		_ = e.Traces.Shutdown(t.Context())
	}
	if e.Metrics != nil {
		_ = e.Metrics.Shutdown(t.Context())
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func status(code int, header ...string) *http.Response {
	resp := &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{}, Body: http.NoBody}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// clients returns clients for both signals whose requests have the responses of respond.
func clients(t *testing.T, respond roundTrip) (traces, metrics *client, _ *log) {
	t.Helper()
	o, log := options(nil)
	o.URL, o.transport = "http://collector:4318", respond
	s := settings{o}
	outages := &outages{warn: o.Warn, note: o.Note, failing: make(map[string]bool)}
	traces, err := s.client("traces", outages)
	metrics, err2 := s.client("metrics", outages)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return traces, metrics, log
}

func TestAnOutageIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		traces, metrics, log := clients(t, func(*http.Request) (*http.Response, error) {
			if down {
				return nil, errors.New("connection refused")
			}
			return status(200), nil
		})
		for range 3 {
			traces.upload(t.Context(), &tracepb.TracesData{})
			metrics.upload(t.Context(), &metricspb.MetricsData{})
		}
		down = false
		for range 3 {
			traces.upload(t.Context(), &tracepb.TracesData{})
			metrics.upload(t.Context(), &metricspb.MetricsData{})
		}
		want := []string{
			"warning: cannot export traces to http://collector:4318/v1/traces: connection refused; the data is lost " +
				"until this works",
			"traces are exported to http://collector:4318/v1/traces again",
		}
		if diff := cmp.Diff(want, log.all()); diff != "" {
			t.Error(diff)
		}
	})
}

// A collector that accepts only traces is no reason to report each of them.
func TestASignalThatIsRejectedIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traces, metrics, log := clients(t, func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "metrics") {
				return status(404), nil
			}
			return status(200), nil
		})
		for range 3 {
			traces.upload(t.Context(), &tracepb.TracesData{})
			metrics.upload(t.Context(), &metricspb.MetricsData{})
		}
		if got := log.all(); len(got) != 1 || !strings.Contains(got[0],
			"/v1/metrics: the collector responds with status Not Found") {
			t.Errorf("reported %q", got)
		}
	})
}

func TestOnlyTransientFailuresAreRepeated(t *testing.T) {
	for name, tc := range map[string]struct {
		responses []*http.Response // then the last one again
		requests  int
		took      time.Duration // at least
		reported  int
	}{
		"success":         {[]*http.Response{status(200)}, 1, 0, 0},
		"busy, then not":  {[]*http.Response{status(503), status(429), status(202)}, 3, 1500 * time.Millisecond, 0},
		"says when":       {[]*http.Response{status(503, "Retry-After", "5"), status(200)}, 2, 5 * time.Second, 0},
		"says much later": {[]*http.Response{status(503, "Retry-After", "3600")}, 1, defaultTimeout, 1},
		"bad request":     {[]*http.Response{status(400)}, 1, 0, 1},
		"unauthorized":    {[]*http.Response{status(401)}, 1, 0, 1},
		"internal error":  {[]*http.Response{status(500)}, 1, 0, 1},
		"another host": {[]*http.Response{status(307, "Location", "http://evil.example/v1/traces"), status(200)},
			1, 0, 1},
		"busy all the time": {[]*http.Response{status(503)}, -1, defaultTimeout, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			traces, _, log := clients(t, func(*http.Request) (*http.Response, error) {
				requests++
				return tc.responses[min(requests, len(tc.responses))-1], nil
			})
			begin := time.Now()
			traces.upload(t.Context(), &tracepb.TracesData{})
			took := time.Since(begin)
			if tc.requests >= 0 && requests != tc.requests || requests > 6 || took < tc.took || took > defaultTimeout ||
				len(log.all()) != tc.reported {
				t.Errorf("%s: %d requests in %v, reported %q", name, requests, took, log.all())
			}
		})
	}
}

// A collector that accepts connections and does not respond costs neither calls nor the end of the program more than
// the time that the program gives.
func TestACollectorThatHangsBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		respond := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		o, log := options(map[string]string{"OTEL_METRICS_EXPORTER": "none"})
		o.URL = "http://collector:4318"
		o.transport = respond
		e := must.Get(Start(o))(t)
		tracer, begin := e.Traces.Tracer("scope"), time.Now()
		for range 10_000 { // more than the queue has room for
			_, span := tracer.Start(t.Context(), "tools/call")
			span.End()
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("spans took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_ = e.Traces.Shutdown(ctx)
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
		synctest.Wait()
		time.Sleep(time.Hour) // the exports of the queue end
		if got := log.all(); len(got) != 1 || !strings.Contains(got[0], "deadline exceeded") {
			t.Errorf("reported %q", got)
		}
	})
}
