package mcptest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// CloseStream returns ErrUnsupported in revisions and on transports without it. The call
// continues in either case.
func TestCloseStreamLosesNoMessage(t *testing.T) {
	closing := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "away", Description: "Closes its stream."}, func(ctx context.Context, _ struct{}) (string, error) {
			_ = server.Progress(ctx, 1, 3, "")
			err := server.CloseStream(ctx, time.Millisecond)
			if err != nil && !errors.Is(err, server.ErrUnsupported) {
				return "", err
			}
			_ = server.Progress(ctx, 2, 3, "")
			_ = server.Progress(ctx, 3, 3, "")
			return fmt.Sprint(err == nil), nil
		})
		return s
	}
	everywhere(t, closing, func(t *testing.T, c *client.Client) {
		var got []float64
		closed, err := client.CallTool[string](t.Context(), c, "away", nil, client.WithProgress(func(done, _ float64, _ string) { got = append(got, done) }))
		if err != nil || !slices.Equal(got, []float64{1, 2, 3}) {
			t.Errorf("progress %v, %v", got, err)
		}
		if has := c.Revision() == mcp.V20251125 && strings.Contains(t.Name(), "/http"); (closed == "true") != has {
			t.Errorf("CloseStream succeeds: %s, want %v", closed, has)
		}
	})
}

// Rule T21: a call survives the loss of its connection after any of its events, and after each
// of them.
func TestLostConnectionLosesNoMessage(t *testing.T) {
	const reports = 3
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		events := reports // the events that others follow
		if r == mcp.V20251125 {
			events++ // the priming event
		}
		for cut := range events + 1 {
			name := fmt.Sprintf("%s/%d", r, cut+1)
			if cut == events {
				name = fmt.Sprintf("%s/each", r)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				endpoint := httptest.NewServer(newServer())
				t.Cleanup(endpoint.Close)
				wire := newCutter(t, endpoint.Listener.Addr().String(), func(n int) bool { return cut == events || n == cut+1 })
				d := client.Dialer{}
				mcptest.WithRevision(r)(&d)
				c, err := d.Dial(t.Context(), client.URL("http://"+wire.addr))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				var got []float64
				_, err = c.CallTool(t.Context(), "count", countParams{To: reports}, client.WithProgress(func(done, _ float64, _ string) { got = append(got, done) }))
				if err != nil || !slices.Equal(got, []float64{1, 2, 3}) {
					t.Errorf("progress %v, %v", got, err)
				}
				if n := wire.cuts(); n == 0 || cut < events && n != 1 {
					t.Errorf("the connection was cut %d times", n)
				}
			})
		}
	}
}

// cutter is a TCP proxy that closes connections after selected events of responses. The
// events are numbered from 1.
type cutter struct {
	addr string
	to   string
	cut  func(n int) bool

	mu       sync.Mutex
	n, after int
	open     []net.Conn
	running  sync.WaitGroup
}

func newCutter(t *testing.T, to string, cut func(n int) bool) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), to: to, cut: cut}
	c.running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", c.to)
			if err != nil {
				near.Close()
				continue
			}
			c.mu.Lock()
			c.open = append(c.open, near, far)
			c.mu.Unlock()
			c.running.Go(func() {
				defer far.Close()
				_, _ = io.Copy(far, near)
			})
			c.running.Go(func() {
				defer near.Close()
				defer far.Close()
				c.forward(near, far)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.mu.Lock()
		for _, conn := range c.open {
			conn.Close()
		}
		c.mu.Unlock()
		c.running.Wait()
	})
	return c
}

// forward forwards the bytes from the server until an event after which the connection is
// closed.
func (c *cutter) forward(near io.Writer, far io.Reader) {
	var text []byte // since the last event
	buf := make([]byte, 64<<10)
	for {
		n, err := far.Read(buf)
		text = append(text, buf[:n]...)
		for {
			end := bytes.Index(text, []byte("\n\n"))
			if end < 0 {
				break
			}
			event := text[:end+2]
			text = text[end+2:]
			if _, err := near.Write(event); err != nil || bytes.Contains(event, []byte("id: p")) && c.passed() {
				return
			}
		}
		if err != nil {
			_, _ = near.Write(text)
			return
		}
		if !bytes.Contains(text, []byte("id: p")) { // not part of an event
			if _, err := near.Write(text); err != nil {
				return
			}
			text = text[:0]
		}
	}
}

// passed counts an event and reports whether the connection is closed after it.
func (c *cutter) passed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if !c.cut(c.n) {
		return false
	}
	c.after++
	return true
}

// cuts returns the number of closed connections.
func (c *cutter) cuts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.after
}
