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

func TestR6EachCallIsOneLineWithoutItsContents(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome func() call.Outcome
		want    string
	}{
		"result":         {func() call.Outcome { return call.Outcome{Result: &mcp.CallToolResult{}} }, "level=INFO msg=call method=tools/call name=pay revision=2025-11-25 took="},
		"ok":             {func() call.Outcome { return call.Outcome{Result: &mcp.CallToolResult{}} }, "outcome=ok"},
		"failed":         {func() call.Outcome { return call.Outcome{Result: &mcp.CallToolResult{IsError: true}} }, "outcome=failed"},
		"input required": {func() call.Outcome { return call.Outcome{Result: &mcp.InputRequiredResult{}} }, `outcome="input required"`},
		"reported":       {func() call.Outcome { return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "hunter2")) }, `outcome="error -32602"`},
		"internal":       {func() call.Outcome { return call.Fail(errors.New("hunter2")) }, `level=WARN msg=call method=tools/call`},
		"panic":          {func() call.Outcome { panic("hunter2") }, `outcome=panic`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			handle := call.LogCalls(slog.New(slog.NewTextHandler(&out, nil)))(func(context.Context, *call.Call) call.Outcome { return tt.outcome() })
			m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"card":"hunter2"}}}`), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() { _ = recover() }()
				handle(t.Context(), &call.Call{Method: m.Method, Params: &m.Params, Revision: mcp.V20251125})
			}()
			if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want) || strings.Contains(got, "hunter2") {
				t.Errorf("logged %q, want %q", got, tt.want)
			}
		})
	}
}
