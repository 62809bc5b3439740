//go:build integration

package interop

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The servers of the SDKs store events, so our client receives everything after a lost connection and after the server
// closes the stream for polling (2025-11-25, basic/transports, Resumability and Redelivery).
func TestOurClientResumesTheirStreams(t *testing.T) {
	for name, peer := range map[string][]string{
		"v1":        {"v1-server.mjs"},
		"v2 legacy": {"v2-server.mjs", "--era", "legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, err := url.Parse(listen(t, node(t, peer[0], append(slices.Clone(peer[1:]), "http", "0")...)))
			must.Do(t, err)
			w := newProxy(t, address.Host)
			address.Host = w.address()
			c := dial(t, &client.Dialer{Revision: mcp.V20251125}, client.URL(address.String()))

			for _, tt := range []struct {
				tool string
				then func() // called after the first progress notification
			}{
				{"waiting", func() {
					w.disconnect()
					go func() {
						must.Check(t, must.Err(c.CallTool(t.Context(), "release", nil)), "release")
					}()
				}},
				{"polled", func() {}},
			} {
				var steps []float64
				text, err := client.CallTool[string](t.Context(), c, tt.tool, nil,
					client.WithProgress(func(done, _ float64, _ string) {
						if steps = append(steps, done); done == 1 {
							tt.then()
						}
					}))
				must.CheckThat(t, err == nil && text == "complete" && slices.Equal(steps, []float64{1, 2}),
					"%s: %q, %v, progress %v", tt.tool, text, err, steps)
			}
		})
	}
}

// The clients of the SDKs reconnect to our server, automatically and with the id of the last event.
func TestTheirClientsResumeOurStreams(t *testing.T) {
	for name, peer := range map[string][]string{
		"v1":        {"v1-client.mjs"},
		"v2 legacy": {"v2-client.mjs", "--era", "legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server.Server{Name: "interop-parley", Version: "1.0.0"}
			endpoint := httptest.NewUnstartedServer(s)
			w := newProxy(t, endpoint.Listener.Addr().String())
			steps := func(tool string, between func(ctx context.Context) error) {
				server.AddTool(s, mcp.Tool{Name: tool}, func(ctx context.Context, _ struct{}) (string, error) {
					if err := server.Progress(ctx, 1, 2, ""); err != nil {
						return "", err
					}
					if err := between(ctx); err != nil {
						return "", err
					}
					if err := server.Progress(ctx, 2, 2, ""); err != nil {
						return "", err
					}
					return "complete", nil
				})
			}
			disconnected := make(chan struct{})
			disconnector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				w.disconnect()
				close(disconnected)
			}))
			t.Cleanup(disconnector.Close)
			wait := func(ctx context.Context, until <-chan struct{}) error {
				select {
				case <-until:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			steps("disconnected", func(ctx context.Context) error { return wait(ctx, disconnected) })
			released := make(chan struct{})
			steps("waiting", func(ctx context.Context) error { return wait(ctx, released) })
			server.AddTool(s, mcp.Tool{Name: "release"}, func(context.Context, struct{}) (string, error) {
				close(released)
				return "released", nil
			})
			endpoint.Start()
			t.Cleanup(endpoint.Close)
			t.Cleanup(endpoint.CloseClientConnections)

			var seen struct {
				Disconnected, Resumed callObservation
				Steps                 []float64
			}
			run(t, node(t, peer[0], slices.Concat([]string{"--disconnector", disconnector.URL}, peer[1:],
				[]string{"http", "http://" + w.address() + "/mcp"})...), &seen)
			for call, got := range map[string]callObservation{"disconnected": seen.Disconnected,
				"resumed": seen.Resumed} {
				must.CheckThat(t, got.Error == nil && got.text() == "complete", "%s: %+v", call, got)
			}
			must.CheckThat(t, slices.Equal(seen.Steps, []float64{1, 2}), "steps %v, want 1 and 2", seen.Steps)
		})
	}
}

// proxy forwards connections to a server. After disconnect, it accepts new connections.
type proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup
	mu       sync.Mutex
	ends     []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	w := &proxy{listener: listener, to: to}
	w.wg.Go(w.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		w.disconnect()
		w.wg.Wait()
	})
	return w
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.ends = append(p.ends, near, far)
		p.mu.Unlock()
		forward := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}
		p.wg.Go(func() { forward(near, far) })
		p.wg.Go(func() { forward(far, near) })
	}
}

// disconnect closes all connections.
func (p *proxy) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.ends {
		_ = end.Close()
	}
	p.ends = nil
}
