package rpc_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

func TestScopesAreCheckedOncePerCall(t *testing.T) {
	granted := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local, Scopes: []string{"read"}})
	for name, tt := range map[string]struct {
		method    string
		authorize bool // before the call is served
		rejected  bool
	}{
		"granted":              {mcp.MethodCallTool, false, false},
		"granted in advance":   {mcp.MethodCallTool, true, false},
		"missing":              {mcp.MethodListTools, false, true},
		"missing, in advance":  {mcp.MethodListTools, true, true},
		"a method of the era":  {mcp.MethodPing, false, false},
		"initialize, rejected": {mcp.MethodInitialize, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			served, checks := 0, 0
			var seen error
			handle := func(context.Context, *rpc.Call) (any, error) { served++; return &mcp.EmptyResult{}, nil }
			e := rpc.NewEngine(map[string]rpc.Handler{mcp.MethodCallTool: handle, mcp.MethodListTools: handle}, new(log).logger(),
				func(next call.Handler) call.Handler {
					return func(ctx context.Context, c *call.Call) (any, error) {
						result, err := next(ctx, c)
						seen = err
						return result, err
					}
				})
			e.Scopes = func(c *call.Call) []string {
				checks++
				if c.Method() == mcp.MethodListTools || c.Method() == mcp.MethodInitialize {
					return []string{"read", "list"}
				}
				return []string{"read"}
			}
			c := callOf(1, tt.method, mcp.V20251125)
			if tt.method == mcp.MethodPing || tt.method == mcp.MethodInitialize {
				c.Handle = handle
			}
			ctx := granted
			if tt.authorize {
				var err error
				if ctx, err = e.Authorize(ctx, &c.Call); (err != nil) != tt.rejected {
					t.Errorf("Authorize: %v", err)
				}
			}
			_, err := e.Serve(ctx, c)
			var missing *auth.ScopeError
			if (err != nil) != tt.rejected || errors.As(seen, &missing) != tt.rejected || (served == 1) == tt.rejected || checks != 1 {
				t.Errorf("served %d times with %d checks, error %v, the middleware sees %v", served, checks, err, seen)
			}
			if tt.rejected && !slices.Equal(missing.Needed, []string{"read", "list"}) {
				t.Errorf("the error names %q", missing.Needed)
			}
		})
	}
}

// The calls of a batch are served together or not at all.
func TestCallsAreAuthorizedTogether(t *testing.T) {
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local, Scopes: []string{"a"}})
	e := rpc.NewEngine(nil, new(log).logger())
	e.Scopes = func(c *call.Call) []string { return []string{c.Name()} }
	named := func(name string) *call.Call { return &callNamed(name).Call }
	ctx, err := e.Authorize(ctx, named("a"), named("b"))
	var missing *auth.ScopeError
	if !errors.As(err, &missing) || !slices.Equal(missing.Needed, []string{"a", "b"}) {
		t.Fatalf("got %v", err)
	}
	c := callNamed("a")
	c.Handle = func(context.Context, *rpc.Call) (any, error) { return &mcp.EmptyResult{}, nil }
	if _, err := e.Serve(ctx, c); err == nil {
		t.Error("a call was served although the scopes of another one are missing")
	}
}

func callNamed(name string) *rpc.Call {
	params := jsonrpc.AppendString([]byte(`{"name":`), name)
	return &rpc.Call{Call: *call.New(call.Description{
		Method: mcp.MethodCallTool, ID: jsonrpc.IntID(1), Revision: mcp.V20250326, Params: jsonrpc.MembersOf(append(params, '}')),
	})}
}
