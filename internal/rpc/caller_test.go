package rpc_test

import (
	"errors"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// What a client must declare for a question, and since when the protocol has it.
func TestAQuestionNeedsACapabilityAndARevision(t *testing.T) {
	const tools = `{"messages":[],"maxTokens":1,"tools":[]}`
	const toolUse = `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"a","input":{}}}],` +
		`"maxTokens":1}`
	elicits := func(e mcp.ElicitationCapability) mcp.ClientCapabilities {
		return mcp.ClientCapabilities{Elicitation: &e}
	}
	samples := func(tools *mcp.Supported) mcp.ClientCapabilities {
		return mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{Tools: tools}}
	}
	yes := &mcp.Supported{}
	everything := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: yes, URL: yes},
		Sampling: &mcp.SamplingCapability{Tools: yes}, Roots: &mcp.RootsCapability{}}
	for name, test := range map[string]struct {
		method, params string
		since          mcp.Revision
		enough         mcp.ClientCapabilities // the least that a client declares
		lacking        []mcp.ClientCapabilities
		required       string // by a client that declares nothing
	}{
		"a form": {mcp.MethodElicit, `{"message":""}`, mcp.V20250618, elicits(mcp.ElicitationCapability{}),
			[]mcp.ClientCapabilities{{}, elicits(mcp.ElicitationCapability{URL: yes})}, `{"elicitation":{}}`},
		"a form by its mode": {mcp.MethodElicit, `{"mode":"form"}`, mcp.V20250618,
			elicits(mcp.ElicitationCapability{Form: yes}), []mcp.ClientCapabilities{{}}, `{"elicitation":{}}`},
		"a URL": {mcp.MethodElicit, `{"mode":"url"}`, mcp.V20251125, elicits(mcp.ElicitationCapability{URL: yes}),
			[]mcp.ClientCapabilities{{}, elicits(mcp.ElicitationCapability{}),
				elicits(mcp.ElicitationCapability{Form: yes})}, `{"elicitation":{"url":{}}}`},
		"sampling": {mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1}`, mcp.V20241105, samples(nil),
			[]mcp.ClientCapabilities{{}}, `{"sampling":{}}`},
		"sampling with tools": {mcp.MethodCreateMessage, tools, mcp.V20251125, samples(yes),
			[]mcp.ClientCapabilities{{}, samples(nil)}, `{"sampling":{}}`},
		"sampling with the choice of a tool": {mcp.MethodCreateMessage, `{"toolChoice":{}}`, mcp.V20251125, samples(yes),
			[]mcp.ClientCapabilities{{}, samples(nil)}, `{"sampling":{}}`},
		"sampling with the use of a tool": {mcp.MethodCreateMessage, toolUse, mcp.V20251125, samples(yes),
			[]mcp.ClientCapabilities{{}, samples(nil)}, `{"sampling":{}}`},
		"roots": {mcp.MethodListRoots, "", mcp.V20241105, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}},
			[]mcp.ClientCapabilities{{}, samples(yes)}, `{"roots":{}}`},
	} {
		needed := rpc.NeededInput(test.method, []byte(test.params))
		for _, r := range mcp.Revisions() {
			check := func(declared mcp.ClientCapabilities) error {
				c := &rpc.Call{Call: *call.New(call.Description{Method: mcp.MethodCallTool, Revision: r,
					Peer: call.Peer{Capabilities: &declared}})}
				return c.CheckInput(needed)
			}
			if r < test.since {
				if err := check(everything); !errors.Is(err, rpc.ErrUnsupported) {
					t.Errorf("%s in %s: %v, want that it is not supported", name, r, err)
				}
				continue
			}
			err := check(test.enough)
			must.CheckThat(t, err == nil, "%s in %s: %v", name, r, err)
			for _, declared := range test.lacking {
				if err := check(declared); !errors.As(err, new(*call.CapabilityError)) {
					t.Errorf("%s in %s of a client with %+v: %v", name, r, declared, err)
				}
			}
			if err := check(mcp.ClientCapabilities{}); err != nil {
				must.CheckContains(t, err.Error(), test.required, name)
			}
		}
	}
	must.CheckEqual(t, rpc.NeededInput(mcp.MethodPing, nil), 0)
}
