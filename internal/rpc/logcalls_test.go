package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

func TestR6EachCallIsOneLineWithoutItsContents(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome func() rpc.Outcome
		want    string
	}{
		"result":         {func() rpc.Outcome { return rpc.Outcome{Result: &mcp.CallToolResult{}} }, "level=INFO msg=call method=tools/call name=pay revision=2025-11-25 took="},
		"ok":             {func() rpc.Outcome { return rpc.Outcome{Result: &mcp.CallToolResult{}} }, "outcome=ok"},
		"failed":         {func() rpc.Outcome { return rpc.Outcome{Result: &mcp.CallToolResult{IsError: true}} }, "outcome=failed"},
		"input required": {func() rpc.Outcome { return rpc.Outcome{Result: &mcp.InputRequiredResult{}} }, `outcome="input required"`},
		"reported":       {func() rpc.Outcome { return rpc.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "hunter2")) }, `outcome="error -32602"`},
		"internal":       {func() rpc.Outcome { return rpc.Fail(errors.New("hunter2")) }, `level=WARN msg=call method=tools/call`},
		"panic":          {func() rpc.Outcome { panic("hunter2") }, `outcome=panic`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			handle := rpc.LogCalls(slog.New(slog.NewTextHandler(&out, nil)))(func(context.Context, *rpc.Call) rpc.Outcome { return tt.outcome() })
			m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"card":"hunter2"}}}`), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() { _ = recover() }()
				handle(t.Context(), &rpc.Call{Method: m.Method, Params: &m.Params, Revision: mcp.V20251125})
			}()
			if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want) || strings.Contains(got, "hunter2") {
				t.Errorf("logged %q, want %q", got, tt.want)
			}
		})
	}
}
