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
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Their servers keep what they send, so that our client loses nothing when its connection is cut in the middle of a
// call, or when the server closes the stream and is polled (2025-11-25, basic/transports, Resumability and Redelivery).
func TestOurClientResumesTheirStreams(t *testing.T) {
	for name, peer := range map[string][]string{
		"v1":        {"v1-server.mjs"},
		"v2 legacy": {"v2-server.mjs", "--era", "legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, err := url.Parse(listen(t, node(t, peer[0], append(slices.Clone(peer[1:]), "http", "0")...)))
			if err != nil {
				t.Fatal(err)
			}
			w := newWire(t, address.Host)
			address.Host = w.address()
			c := dial(t, &client.Dialer{Revision: mcp.V20251125}, client.URL(address.String()))

			for _, tt := range []struct {
				tool string
				then func() // when the first step was reported
			}{
				{"held", func() {
					w.cut()
					go func() {
						if _, err := c.CallTool(t.Context(), "release", nil); err != nil {
							t.Errorf("release: %v", err)
						}
					}()
				}},
				{"polled", func() {}},
			} {
				var steps []float64
				text, err := client.CallTool[string](t.Context(), c, tt.tool, nil, client.WithProgress(func(done, _ float64, _ string) {
					if steps = append(steps, done); done == 1 {
						tt.then()
					}
				}))
				if err != nil || text != "nothing was lost" || !slices.Equal(steps, []float64{1, 2}) {
					t.Errorf("%s: %q, %v, progress %v", tt.tool, text, err, steps)
				}
			}
		})
	}
}

// Their clients come back for what our server has sent meanwhile, by themselves and with the id of the last event.
func TestTheirClientsResumeOurStreams(t *testing.T) {
	for name, peer := range map[string][]string{
		"v1":        {"v1-client.mjs"},
		"v2 legacy": {"v2-client.mjs", "--era", "legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server.Server{Name: "interop-parley", Version: "1.0.0"}
			endpoint := httptest.NewUnstartedServer(s)
			w := newWire(t, endpoint.Listener.Addr().String())
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
					return "nothing was lost", nil
				})
			}
			severed := make(chan struct{})
			scissors := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				w.cut()
				close(severed)
			}))
			t.Cleanup(scissors.Close)
			wait := func(ctx context.Context, until <-chan struct{}) error {
				select {
				case <-until:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			steps("cut", func(ctx context.Context) error { return wait(ctx, severed) })
			steps("polled", func(ctx context.Context) error { return server.CloseStream(ctx, 50*time.Millisecond) })
			released := make(chan struct{})
			steps("held", func(ctx context.Context) error { return wait(ctx, released) })
			server.AddTool(s, mcp.Tool{Name: "release"}, func(context.Context, struct{}) (string, error) {
				close(released)
				return "released", nil
			})
			endpoint.Start()
			t.Cleanup(endpoint.Close)
			t.Cleanup(endpoint.CloseClientConnections)

			var seen struct {
				Cut, Polled, Resumed callObservation
				Steps                []float64
			}
			run(t, node(t, peer[0], slices.Concat([]string{"--scissors", scissors.URL}, peer[1:], []string{"http", "http://" + w.address() + "/mcp"})...), &seen)
			for call, got := range map[string]callObservation{"cut": seen.Cut, "polled": seen.Polled, "resumed": seen.Resumed} {
				if got.Error != nil || got.text() != "nothing was lost" {
					t.Errorf("%s: %+v", call, got)
				}
			}
			if !slices.Equal(seen.Steps, []float64{1, 2, 1, 2}) {
				t.Errorf("steps %v, want 1 and 2 of both calls", seen.Steps)
			}
		})
	}
}

// A wire carries connections to a server, until it is cut. Later connections are carried again.
type wire struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup
	mu       sync.Mutex
	ends     []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, to: to}
	w.wg.Go(w.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut()
		w.wg.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) serve() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.ends = append(w.ends, near, far)
		w.mu.Unlock()
		carry := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}
		w.wg.Go(func() { carry(near, far) })
		w.wg.Go(func() { carry(far, near) })
	}
}

// cut ends all connections, in the middle of whatever they carry.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range w.ends {
		_ = end.Close()
	}
	w.ends = nil
}
