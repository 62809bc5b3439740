package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	firstWait   = time.Second // before the second attempt; the next ones wait twice as long
	maxRequest  = 64 << 20    // OTLP/HTTP, recommended limit of a request
	maxResponse = 4 << 20     // and of a response, which is not used
	userAgent   = "Parley OTel-OTLP-Exporter-Go"
)

// client sends the data of one signal to a collector.
type client struct {
	url, host string
	signal    string
	header    http.Header
	timeout   time.Duration
	gzip      bool
	http      *http.Client
	outages   *outages
}

// upload sends a message, and repeats attempts that fail for a time until the time-out. It reports failures itself,
// once for each outage.
func (c *client) upload(ctx context.Context, m proto.Message) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body, err := proto.Marshal(m)
	if err == nil && len(body) > maxRequest {
		err = fmt.Errorf("the data has %d bytes, and the limit is %d", len(body), maxRequest)
	}
	if err == nil && c.gzip {
		body = compressed(body)
	}
	for wait := firstWait; err == nil; wait *= 2 {
		var again time.Duration
		again, err = c.post(ctx, body)
		if err == nil || again < 0 {
			break
		}
		timer := time.NewTimer(max(again, wait/2+rand.N(wait/2)))
		select {
		case <-ctx.Done():
			timer.Stop()
			c.outages.report(c, err)
			return
		case <-timer.C:
			err = nil
		}
	}
	c.outages.report(c, err)
}

// statusError is an error for a response that does not accept the data.
type statusError struct{ status string }

func (e *statusError) Error() string { return "the collector responds with status " + e.status }

// post sends one request. If it fails and may be sent again, post returns the minimum time to wait, and otherwise -1
// (OTLP/HTTP, Failures).
func (c *client) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header = c.header.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", userAgent)
	if c.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, errors.Unwrap(err) // a *url.Error, whose URL the report has
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponse)) // the connection can be used again
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(min(max(seconds, 0), 3600)) * time.Second, &statusError{resp.Status}
	}
	if resp.StatusCode/100 != 2 {
		return -1, &statusError{resp.Status}
	}
	return 0, nil
}

func compressed(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // a buffer has no errors
	_ = w.Close()
	return out.Bytes()
}

// outages reports when exports begin to fail and when they succeed again. It is safe for concurrent use.
type outages struct {
	warn, note func(text string)

	mu      sync.Mutex
	failing map[string]bool // hosts that do not respond, and URLs that do not accept data
}

func (o *outages) report(c *client, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		if o.failing[c.url] || o.failing[c.host] {
			o.note(c.signal + " are exported to " + c.url + " again")
		}
		delete(o.failing, c.url)
		delete(o.failing, c.host)
		return
	}
	what := c.host
	if errors.As(err, new(*statusError)) {
		what = c.url
	}
	if !o.failing[what] {
		o.failing[what] = true
		o.warn("cannot export " + c.signal + " to " + c.url + ": " + err.Error() +
			"; the data is lost until this works")
	}
}

// spanClient implements otlptrace.Client.
type spanClient struct{ *client }

func (spanClient) Start(context.Context) error { return nil }

func (s spanClient) Stop(context.Context) error {
	s.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans. TracesData is on the wire what the service of traces receives.
func (s spanClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	s.upload(ctx, &tracepb.TracesData{ResourceSpans: spans})
	return nil
}

// metricExporter implements sdkmetric.Exporter.
type metricExporter struct {
	client      *client
	temporality sdkmetric.TemporalitySelector
}

func (e *metricExporter) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return e.temporality(k)
}

func (e *metricExporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

// Export sends metrics. MetricsData is on the wire what the service of metrics receives.
func (e *metricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	of := &metricspb.ResourceMetrics{Resource: &resourcepb.Resource{Attributes: attributesOf(data.Resource.Set())},
		SchemaUrl: data.Resource.SchemaURL()}
	for _, scope := range data.ScopeMetrics {
		encoded := &metricspb.ScopeMetrics{Scope: &commonpb.InstrumentationScope{Name: scope.Scope.Name,
			Version: scope.Scope.Version}, SchemaUrl: scope.Scope.SchemaURL}
		for _, m := range scope.Metrics {
			if one := encodeMetric(m); one != nil {
				encoded.Metrics = append(encoded.Metrics, one)
			}
		}
		of.ScopeMetrics = append(of.ScopeMetrics, encoded)
	}
	if len(of.ScopeMetrics) > 0 {
		e.client.upload(ctx, &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{of}})
	}
	return nil
}

func (e *metricExporter) ForceFlush(context.Context) error { return nil }

func (e *metricExporter) Shutdown(context.Context) error {
	e.client.http.CloseIdleConnections()
	return nil
}

// encodeMetric returns nil for aggregations that the default selector does not choose.
func encodeMetric(m metricdata.Metrics) *metricspb.Metric {
	out := &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch data := m.Data.(type) {
	case metricdata.Gauge[int64]:
		out.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points(data.DataPoints)}}
	case metricdata.Gauge[float64]:
		out.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points(data.DataPoints)}}
	case metricdata.Sum[int64]:
		out.Data = sum(data)
	case metricdata.Sum[float64]:
		out.Data = sum(data)
	case metricdata.Histogram[int64]:
		out.Data = histogram(data)
	case metricdata.Histogram[float64]:
		out.Data = histogram(data)
	default:
		return nil
	}
	return out
}

func points[N int64 | float64](in []metricdata.DataPoint[N]) (out []*metricspb.NumberDataPoint) {
	for _, p := range in {
		point := &metricspb.NumberDataPoint{Attributes: attributesOf(&p.Attributes),
			StartTimeUnixNano: nanoseconds(p.StartTime), TimeUnixNano: nanoseconds(p.Time)}
		switch v := any(p.Value).(type) {
		case int64:
			point.Value = &metricspb.NumberDataPoint_AsInt{AsInt: v}
		case float64:
			point.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: v}
		}
		out = append(out, point)
	}
	return out
}

func sum[N int64 | float64](in metricdata.Sum[N]) *metricspb.Metric_Sum {
	return &metricspb.Metric_Sum{Sum: &metricspb.Sum{
		DataPoints: points(in.DataPoints), AggregationTemporality: temporality(in.Temporality),
		IsMonotonic: in.IsMonotonic,
	}}
}

func histogram[N int64 | float64](in metricdata.Histogram[N]) *metricspb.Metric_Histogram {
	out := &metricspb.Histogram{AggregationTemporality: temporality(in.Temporality)}
	for _, p := range in.DataPoints {
		total := float64(p.Sum)
		point := &metricspb.HistogramDataPoint{
			Attributes: attributesOf(&p.Attributes), StartTimeUnixNano: nanoseconds(p.StartTime),
			TimeUnixNano: nanoseconds(p.Time),
			Count:        p.Count, Sum: &total, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
		}
		if v, ok := p.Min.Value(); ok {
			point.Min = new(float64(v))
		}
		if v, ok := p.Max.Value(); ok {
			point.Max = new(float64(v))
		}
		out.DataPoints = append(out.DataPoints, point)
	}
	return &metricspb.Metric_Histogram{Histogram: out}
}

func temporality(t metricdata.Temporality) metricspb.AggregationTemporality {
	if t == metricdata.DeltaTemporality {
		return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
}

func nanoseconds(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) } // 0: unknown

func attributesOf(set *attribute.Set) (out []*commonpb.KeyValue) {
	for iter := set.Iter(); iter.Next(); {
		a := iter.Attribute()
		value := &commonpb.AnyValue{}
		switch a.Value.Type() {
		case attribute.BOOL:
			value.Value = &commonpb.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		case attribute.INT64:
			value.Value = &commonpb.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.FLOAT64:
			value.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: a.Value.AsFloat64()}
		default: // the program has no lists
			value.Value = &commonpb.AnyValue_StringValue{StringValue: a.Value.String()}
		}
		out = append(out, &commonpb.KeyValue{Key: string(a.Key), Value: value})
	}
	return out
}
