package client_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Rule M3: the client returns requestState unchanged, and only in the next request of the call.
func TestRequestStateIsReturnedUnchanged(t *testing.T) {
	const form = `"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}`
	for _, state := range []string{`"a\u0062\/c \u00e9 é"`, `"{\"looks\": [\"like\", 1.0, \"JSON\"]}"`, `""`, ``} {
		asked := `"result":{"resultType":"input_required",` + form
		if state != "" {
			asked += `,"requestState":` + state
		}
		near, far := transport.Pipe()
		var calls [][]byte
		ended := make(chan error, 1)
		go func() { // the server, which sends one input request for each call
			ended <- func() error {
				for {
					raw, err := far.Read(context.Background())
					if err != nil {
						return nil
					}
					m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
					if err != nil {
						return err
					}
					answer := discovered
					if m.Method == mcp.MethodCallTool {
						calls = append(calls, raw)
						if answer = `"result":{"resultType":"complete","content":[{"type":"text","text":"called"}]}`; len(calls)%2 == 1 {
							answer = asked + "}"
						}
					}
					if err := far.Write(context.Background(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID.Append(nil), answer)); err != nil {
						return err
					}
				}
			}()
		}()
		d := client.Dialer{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(struct{}{})
		}}
		c, err := d.Dial(t.Context(), client.Conn(near))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
				t.Errorf("%q, %v", text, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if len(calls) != 4 {
			t.Fatalf("the server received %d requests, want 4: %q", len(calls), calls)
		}
		ids := make(map[jsonrpc.ID]bool)
		for i, raw := range calls {
			m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			ids[m.ID] = true
			got, found := jsonrpc.Get(m.Raw, "requestState")
			retry := i%2 == 1
			if found != (retry && state != "") || found && !bytes.Equal(got, []byte(state)) {
				t.Errorf("requestState %s: request %d is %s", state, i, raw)
			}
			if answers, found := jsonrpc.Get(m.Raw, "inputResponses"); found != retry {
				t.Errorf("request %d has inputResponses %s, want a retry only to have them", i, answers)
			}
		}
		if len(ids) != len(calls) {
			t.Errorf("requests share an id: %q", calls)
		}
	}
}
