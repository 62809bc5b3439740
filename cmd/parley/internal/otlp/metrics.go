package otlp

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

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
	of := &metricspb.ResourceMetrics{Resource: &resourcepb.Resource{Attributes: attributesOf(data.Resource.Set())}, SchemaUrl: data.Resource.SchemaURL()}
	for _, scope := range data.ScopeMetrics {
		encoded := &metricspb.ScopeMetrics{Scope: &commonpb.InstrumentationScope{Name: scope.Scope.Name, Version: scope.Scope.Version}, SchemaUrl: scope.Scope.SchemaURL}
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
		point := &metricspb.NumberDataPoint{Attributes: attributesOf(&p.Attributes), StartTimeUnixNano: nanoseconds(p.StartTime), TimeUnixNano: nanoseconds(p.Time)}
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
		DataPoints: points(in.DataPoints), AggregationTemporality: temporality(in.Temporality), IsMonotonic: in.IsMonotonic,
	}}
}

func histogram[N int64 | float64](in metricdata.Histogram[N]) *metricspb.Metric_Histogram {
	out := &metricspb.Histogram{AggregationTemporality: temporality(in.Temporality)}
	for _, p := range in.DataPoints {
		total := float64(p.Sum)
		point := &metricspb.HistogramDataPoint{
			Attributes: attributesOf(&p.Attributes), StartTimeUnixNano: nanoseconds(p.StartTime), TimeUnixNano: nanoseconds(p.Time),
			Count: p.Count, Sum: &total, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
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
