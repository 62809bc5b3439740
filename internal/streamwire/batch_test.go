package streamwire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/streamwire"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// recorder is a receiver that records what it receives.
type recorder struct {
	lines chan string
}

func (o recorder) Receive(m *jsonrpc.Message)             { o.lines <- fmt.Sprint(m.Method, m.ID) }
func (o recorder) ReceiveInvalid(*jsonrpc.Message, error) { o.lines <- "invalid" }
func (o recorder) Lost(error)                             { close(o.lines) }

// Rules J7, J8: the client accepts batches in the one revision that has them.
func TestClientAcceptsBatchesOf20250326Only(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			near, far := transport.Pipe()
			received := recorder{make(chan string, 16)}
			c := streamwire.NewClient(near, received, jsonrpc.Limits{})
			c.SetRevision(r)
			for _, message := range []string{
				`[{"jsonrpc":"2.0","method":"a"},7,{"jsonrpc":"2.0","id":3,"result":{}}]`, `[]`, `{"jsonrpc":"2.0","method":"last"}`,
			} {
				if err := far.Write(t.Context(), []byte(message)); err != nil {
					t.Fatal(err)
				}
			}
			want := "invalid invalid last"
			if r == mcp.V20250326 {
				want = "a invalid 3 invalid last"
			}
			var got []string
			for line := range received.lines {
				if got = append(got, line); line == "last" {
					break
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("received %q, want %q", got, want)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
