package call_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Rule R6.
func TestLogCallsWritesOneLineWithoutParametersAndResult(t *testing.T) {
	result := func(result any) call.Handler {
		return func(context.Context, *call.Call) (any, error) { return result, nil }
	}
	fail := func(err error) call.Handler {
		return func(context.Context, *call.Call) (any, error) { return nil, err }
	}
	for name, tt := range map[string]struct {
		handler call.Handler
		want    string
	}{
		"attributes":     {result(&mcp.CallToolResult{}), "level=INFO msg=call method=tools/call name=pay revision=2025-11-25 took="},
		"ok":             {result(&mcp.CallToolResult{}), "outcome=ok"},
		"failed":         {result(&mcp.CallToolResult{IsError: true}), "outcome=failed"},
		"input required": {result(&mcp.InputRequiredResult{}), `outcome="input required"`},
		"protocol error": {fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "hunter2")), `outcome="error -32602"`},
		"internal error": {fail(errors.New("hunter2")), `level=WARN msg=call method=tools/call`},
		"panic":          {func(context.Context, *call.Call) (any, error) { panic("hunter2") }, `outcome=panic`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			handle := call.LogCalls(slog.New(slog.NewTextHandler(&out, nil)))(tt.handler)
			c := call.New(call.Description{
				Method: mcp.MethodCallTool, Revision: mcp.V20251125,
				Params: jsonrpc.MembersOf([]byte(`{"name":"pay","arguments":{"card":"hunter2"}}`)),
			})
			func() {
				defer func() { _ = recover() }()
				_, _ = handle(t.Context(), c)
			}()
			if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want) || strings.Contains(got, "hunter2") {
				t.Errorf("logged %q, want %q", got, tt.want)
			}
		})
	}
}
