package streamserver_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/transport"
)

// wire is one kind of connection.
type wire struct {
	name string
	// ends returns the two ends of a connection. The server reads messages of at most 4096
	// bytes.
	ends func(t *testing.T) (near, far transport.Conn)
}

func wires() []wire {
	limits := transport.StreamOptions{MaxMessage: 4096}
	return []wire{
		{"memory", func(*testing.T) (near, far transport.Conn) { return transport.PipeLimits(4<<20, 4096) }},
		{"stdio", func(*testing.T) (near, far transport.Conn) {
			theirIn, in := io.Pipe()
			out, theirOut := io.Pipe()
			return transport.Stream(halves{out, in}, transport.StreamOptions{}), transport.Stream(halves{theirIn, theirOut}, limits)
		}},
		{"socket", func(t *testing.T) (near, far transport.Conn) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			client, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			server, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return transport.Stream(client, transport.StreamOptions{}), transport.Stream(server, limits)
		}},
	}
}

// onEveryWire tests both eras on each wire. Begin connects to a server and makes the connection
// ready for calls. The clock is that of synctest, except on sockets.
func onEveryWire(t *testing.T, f func(t *testing.T, e era, begin func(*streamserver.Server) *peer)) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			inBothEras(t, func(t *testing.T, e era) {
				test := func(t *testing.T) {
					f(t, e, func(s *streamserver.Server) *peer {
						near, far := w.ends(t)
						p := serve(t, s, near, far)
						e.begin(p)
						return p
					})
				}
				if w.name == "socket" {
					test(t)
				} else {
					synctest.Test(t, test)
				}
			})
		})
	}
}

// goroutinesIn returns the number of goroutines that run a function of streamserver.
func goroutinesIn(function string) int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "/streamserver."+function+"(")
}

// eventually fails the test unless check returns nil within patience.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	limit := time.After(patience)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatal(err)
		}
	}
}
