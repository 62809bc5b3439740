package httpclient

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// keeper keeps the parameters of notifications, as a handler of an extension may.
type keeper struct {
	outbound.Receiver
	kept [][]byte
}

func (k *keeper) Receive(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Notification {
		k.kept = append(k.kept, m.Raw)
	}
	k.Receiver.Receive(m)
}

// A response that is forwarded gives up its memory, which the other messages of its batch still use.
func TestMessagesOfABatchKeepTheirMemoryWhenTheResponseIsForwarded(t *testing.T) {
	const params = `{"level":"info","data":"kept"}`
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			writeJSON(w, fmt.Sprintf(`[{"jsonrpc":"2.0","method":"notifications/message","params":%s},{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":%q}}]`,
				params, idOf(body), strings.Repeat("x", 32<<10)))
		}
	})
	c := newLegacy(t, p.options(t))
	c.SetRevision(mcp.V20250326)
	k := &keeper{Receiver: c.received.Receiver}
	c.received.Receiver = k
	f := &rpc.Forwarding{Context: t.Context()}
	raw, err := c.call(t.Context(), &outbound.Request{Method: mcp.MethodCallTool, Params: []byte(`{"name":"t"}`), Forwarding: f})
	if err != nil {
		t.Fatal(err)
	}
	f.Result = &mcp.CallToolResult{ResultBase: mcp.ResultBase{Source: raw}}
	f.Append(bytes.Repeat([]byte("h"), 200), mcp.V20250326, nil)
	if len(k.kept) != 1 || string(k.kept[0]) != params {
		t.Errorf("the parameters of the notification are %q, want %s", k.kept, params)
	}
}
