// Package otlp exports traces and metrics with the OpenTelemetry protocol over HTTP, as an URL and the standard
// environment variables of OpenTelemetry say. parley up, serve, bridge and mock use it.
//
// OpenTelemetry's own exporters over HTTP link gRPC, which adds 5.5 MB to the program. This package takes the encoding
// of spans from OpenTelemetry, encodes metrics itself (metrics.go), and sends both with net/http (client.go).
// settings.go reads the environment.
package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Options configure an Exporter.
type Options struct {
	// URL is the base URL of the collector, such as http://localhost:4318. It replaces the endpoints of the
	// environment. If it is empty, the environment says whether and where to export.
	URL     string
	Getenv  func(string) string // usually os.Getenv
	Service string              // the name of the service, unless the environment has one
	Version string              // of the service
	// Warn and Note report problems of the environment and of exports, and their end. They must be safe for concurrent
	// use.
	Warn, Note func(text string)

	transport http.RoundTripper // for tests; nil means that of net/http
}

// Exporter exports traces and metrics. Exports do not block the program: spans that the collector does not receive in
// time are lost.
type Exporter struct {
	Traces     *sdktrace.TracerProvider // nil if traces are not exported
	Metrics    sdkmetric.Reader         // nil if metrics are not exported; a MeterProvider reads and closes it
	Resource   *resource.Resource
	Propagator propagation.TextMapPropagator
}

// Start starts an Exporter. It returns nil if there is nothing to export, and an error if the URL is invalid. A setting
// of the environment that is invalid is reported and ignored.
func Start(o Options) (*Exporter, error) {
	s := settings{Options: o}
	if s.disabled() {
		return nil, nil
	}
	outages := &outages{warn: o.Warn, note: o.Note, failing: make(map[string]bool)}
	traces, err := s.client("traces", outages)
	if err != nil {
		return nil, err
	}
	metrics, err := s.client("metrics", outages)
	if err != nil || traces == nil && metrics == nil {
		return nil, err
	}
	e := &Exporter{Propagator: s.propagator()}
	e.Resource, err = resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", o.Service),
			attribute.String("service.version", o.Version)),
		resource.WithFromEnv())
	if err != nil {
		o.Warn(fmt.Sprintf("OTEL_RESOURCE_ATTRIBUTES: %v", err))
	}
	if traces != nil {
		e.Traces = sdktrace.NewTracerProvider(sdktrace.WithResource(e.Resource),
			sdktrace.WithBatcher(otlptrace.NewUnstarted(spanClient{traces})))
	}
	if metrics != nil {
		e.Metrics = sdkmetric.NewPeriodicReader(&metricExporter{client: metrics, temporality: s.temporality()})
	}
	return e, nil
}

// propagator returns the propagators that the environment names (OpenTelemetry, General SDK Configuration). The program
// has those of the World Wide Web Consortium.
func (s *settings) propagator() propagation.TextMapPropagator {
	known := map[string]propagation.TextMapPropagator{"tracecontext": propagation.TraceContext{},
		"baggage": propagation.Baggage{}}
	var chosen []propagation.TextMapPropagator
	var seen []string
	for name := range strings.SplitSeq(s.value("OTEL_PROPAGATORS", "tracecontext,baggage"), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case name == "none" || slices.Contains(seen, name):
		case known[name] == nil:
			s.Warn(fmt.Sprintf("OTEL_PROPAGATORS: propagator %.100q is not supported; write tracecontext, baggage or "+
				"none",
				name))
		default:
			chosen = append(chosen, known[name])
		}
		seen = append(seen, name)
	}
	return propagation.NewCompositeTextMapPropagator(chosen...)
}

const (
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second // of an export, with all attempts
)

// settings are the options with the environment, whose variables the OpenTelemetry specification defines (General SDK
// Configuration, OpenTelemetry Protocol Exporter). The samplers, the batches and the interval of metrics are read by
// OpenTelemetry.
type settings struct{ Options }

// value returns a variable. An empty one is not set.
func (s *settings) value(name, otherwise string) string {
	if v := strings.TrimSpace(s.Getenv(name)); v != "" {
		return v
	}
	return otherwise
}

// of returns the value of a variable of the exporter for a signal, and its name.
func (s *settings) of(signal, variable string) (value, name string) {
	name = "OTEL_EXPORTER_OTLP_" + strings.ToUpper(signal) + "_" + variable
	if v := s.value(name, ""); v != "" {
		return v, name
	}
	name = "OTEL_EXPORTER_OTLP_" + variable
	return s.value(name, ""), name
}

func (s *settings) disabled() bool {
	switch v := strings.ToLower(s.value("OTEL_SDK_DISABLED", "false")); v {
	case "true":
		if s.URL != "" {
			s.Warn("OTEL_SDK_DISABLED is true: traces and metrics are not exported")
		}
		return true
	case "false":
	default:
		s.Warn(fmt.Sprintf("OTEL_SDK_DISABLED: value %.100q is read as false; write true or false", v))
	}
	return false
}

// exports reports whether a signal is exported. The specification's default is to export to a collector on this
// machine; the program does so only if a variable or the URL says that there is one.
func (s *settings) exports(signal string) bool {
	endpoint, _ := s.of(signal, "ENDPOINT")
	wanted := s.URL != "" || endpoint != ""
	name := "OTEL_" + strings.ToUpper(signal) + "_EXPORTER"
	for exporter := range strings.SplitSeq(s.value(name, ""), ",") {
		switch strings.ToLower(strings.TrimSpace(exporter)) {
		case "":
		case "otlp":
			return true
		case "none", "prometheus": // --admin serves metrics in the format of Prometheus
			wanted = false
		default:
			s.Warn(fmt.Sprintf("%s: exporter %.100q is not supported; write otlp or none", name, exporter))
		}
	}
	return wanted
}

// client returns the client for a signal, or nil if it is not exported.
func (s *settings) client(signal string, outages *outages) (*client, error) {
	if !s.exports(signal) {
		return nil, nil
	}
	if protocol, name := s.of(signal, "PROTOCOL"); s.URL == "" && protocol != "" &&
		!strings.EqualFold(protocol, "http/protobuf") {
		s.Warn(fmt.Sprintf("%s: protocol %.100q is not supported, so %s are not exported; write http/protobuf and the "+
			"endpoint of a collector for it, usually port 4318",
			name, protocol, signal))
		return nil, nil
	}
	u, err := s.endpoint(signal)
	if err != nil {
		if s.URL != "" {
			return nil, err
		}
		s.Warn(err.Error() + "; " + signal + " are not exported")
		return nil, nil
	}
	c := &client{url: u.String(), host: u.Host, signal: signal, outages: outages, timeout: defaultTimeout,
		header: s.header(signal)}
	if text, name := s.of(signal, "TIMEOUT"); text != "" {
		if ms, err := strconv.ParseInt(text, 10, 32); err == nil && ms > 0 {
			c.timeout = time.Duration(ms) * time.Millisecond
		} else {
			s.Warn(fmt.Sprintf("%s must be a number of milliseconds, got %.100q", name, text))
		}
	}
	switch text, name := s.of(signal, "COMPRESSION"); strings.ToLower(text) {
	case "", "none":
	case "gzip":
		c.gzip = true
	default:
		s.Warn(fmt.Sprintf("%s must be gzip or none, got %.100q", name, text))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = s.tls(signal); err != nil {
		s.Warn(err.Error() + "; " + signal + " are not exported")
		return nil, nil
	}
	// A redirect would send the headers, which can have secrets, to another host.
	c.http = &http.Client{Transport: cmp.Or[http.RoundTripper](s.transport, transport),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// endpoint returns the URL for a signal (Endpoint URLs for OTLP/HTTP).
func (s *settings) endpoint(signal string) (*url.URL, error) {
	text, name := s.URL, "--otlp"
	if text == "" {
		text, name = s.of(signal, "ENDPOINT")
	}
	if text == "" {
		text = defaultEndpoint
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		// The text can have a password.
		return nil, fmt.Errorf("%s must be the URL of a collector without a user, such as %s; write credentials to "+
			"OTEL_EXPORTER_OTLP_HEADERS", name, defaultEndpoint)
	}
	if s.URL != "" || strings.HasSuffix(name, "_OTLP_ENDPOINT") {
		return u.JoinPath("v1", signal), nil
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// header returns the headers of the requests, which are written like W3C Baggage.
func (s *settings) header(signal string) http.Header {
	h := http.Header{}
	text, name := s.of(signal, "HEADERS")
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil ||
			strings.ContainsAny(key, " \t\r\n:\x00") ||
			strings.ContainsAny(decoded, "\r\n\x00") {
			// it can be secret
			s.Warn(name +
				" must be a list of name=value, separated by commas, with percent-encoded values; one of them is " +
				"ignored")
			continue
		}
		h.Set(key, decoded)
	}
	return h
}

// tls returns the TLS configuration for a signal; nil means the default.
func (s *settings) tls(signal string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	roots, name := s.of(signal, "CERTIFICATE")
	if roots != "" {
		text, err := os.ReadFile(roots)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: file %s must have a certificate as PEM", name, roots)
		}
	}
	cert, name := s.of(signal, "CLIENT_CERTIFICATE")
	key, keyName := s.of(signal, "CLIENT_KEY")
	switch {
	case cert != "" && key != "":
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", name, keyName, err)
		}
		config.Certificates = []tls.Certificate{pair}
	case cert != "" || key != "":
		return nil, errors.New(name + " and " + keyName + " belong together")
	}
	return config, nil
}

// temporality returns the preference for the temporality of metrics.
func (s *settings) temporality() sdkmetric.TemporalitySelector {
	const name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
	switch text := strings.ToLower(s.value(name, "cumulative")); text {
	case "delta":
		return sdkmetric.DeltaTemporalitySelector
	case "lowmemory":
		return sdkmetric.LowMemoryTemporalitySelector
	case "cumulative":
	default:
		s.Warn(fmt.Sprintf("%s must be cumulative, delta or lowmemory, got %.100q", name, text))
	}
	return sdkmetric.CumulativeTemporalitySelector
}
