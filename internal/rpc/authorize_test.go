package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// entries is a feature whose calls name entries, which need the scopes with their names.
type entries struct {
	scoped   bool
	resolved int
	served   []string
}

func (f *entries) Handles(string) bool { return true }
func (f *entries) Scoped() bool        { return f.scoped }

func (f *entries) Resolve(_ context.Context, c *rpc.Call) (rpc.Target, []string, error) {
	f.resolved++
	if c.Name() == "unknown" {
		return rpc.Target{}, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown")
	}
	needs := []string{c.Name()}
	if c.Name() == "open" {
		needs = nil
	}
	return rpc.Target{Serve: f.serve, Entry: fmt.Sprint(c.Name(), f.resolved)}, needs, nil
}

func (f *entries) serve(_ context.Context, c *rpc.Call) (any, error) {
	f.served = append(f.served, c.Target.Entry.(string))
	return &mcp.EmptyResult{}, nil
}

// The middleware sees the error of each call.
func TestCallIsResolvedAndAuthorizedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		method, name string
		ofEra        bool   // the era serves the method
		missing      string // scopes
		unknown      bool
	}{
		"granted":                        {method: mcp.MethodCallTool, name: "read"},
		"no scopes needed":               {method: mcp.MethodCallTool, name: "open"},
		"unknown":                        {method: mcp.MethodCallTool, name: "unknown", unknown: true},
		"the scope of the entry missing": {method: mcp.MethodCallTool, name: "write", missing: "read write"},
		"both missing":                   {method: mcp.MethodListTools, name: "write", missing: "read list write"},
		"missing and unknown":            {method: mcp.MethodListTools, name: "unknown", missing: "read list"},
		"missing and no such method":     {method: mcp.MethodDiscover, name: "open", missing: "read discover"},
		"a method of the era":            {method: mcp.MethodPing, ofEra: true},
		"a method of the era, missing":   {method: mcp.MethodInitialize, ofEra: true, missing: "read start"},
	} {
		for _, scoped := range []bool{false, true} {
			for _, early := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/scoped=%v/in advance=%v", name, scoped, early), func(t *testing.T) {
					f := &entries{scoped: scoped}
					var seen error
					e := rpc.NewEngine(f, new(log).logger(), func(next call.Handler) call.Handler {
						return func(ctx context.Context, c *call.Call) (any, error) {
							result, err := next(ctx, c)
							seen = err
							return result, err
						}
					})
					e.Auth = &auth.ProtectedResource{Scopes: []string{"read"}, MethodScopes: map[string][]string{
						mcp.MethodListTools: {"list"}, mcp.MethodInitialize: {"start"}, mcp.MethodDiscover: {"discover"},
					}}
					c := callNamed(tt.method, tt.name)
					if tt.ofEra {
						c.Target = rpc.EraTarget(func(context.Context, *rpc.Call) (any, error) {
							f.served = append(f.served, "era")
							return &mcp.EmptyResult{}, nil
						})
					}
					ctx := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local, Scopes: []string{"read"}})
					if early {
						if err := e.Authorize(ctx, c); scoped && (err != nil) != (tt.missing != "") {
							t.Errorf("Authorize: %v", err)
						}
					}
					_, err := e.Serve(ctx, c)
					var missing *auth.ScopeError
					if errors.As(seen, &missing) != (tt.missing != "") || missing != nil && strings.Join(missing.Needed, " ") != tt.missing && (scoped || !early) {
						t.Errorf("the middleware sees %v", seen)
					}
					if served := tt.missing == "" && !tt.unknown; (err == nil) != served || (len(f.served) == 1) != served {
						t.Errorf("%q served the call: %v", f.served, err)
					}
					if !tt.unknown && f.resolved > 1 {
						t.Errorf("resolved %d times", f.resolved)
					}
				})
			}
		}
	}
}

// The calls of a batch are served together or not at all.
func TestCallsAreAuthorizedTogether(t *testing.T) {
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local, Scopes: []string{"a"}})
	f := &entries{scoped: true}
	e := rpc.NewEngine(f, new(log).logger())
	a, b := callNamed(mcp.MethodCallTool, "a"), callNamed(mcp.MethodCallTool, "b")
	var missing *auth.ScopeError
	if err := e.Authorize(ctx, a, b); !errors.As(err, &missing) || !slices.Equal(missing.Needed, []string{"a", "b"}) {
		t.Fatalf("got %v", err)
	}
	if _, err := e.Serve(ctx, a); err == nil || f.served != nil {
		t.Error("a call was served although the scopes of another one are missing")
	}
}

// A target that was authorized serves one run: each further run is another decision.
func TestSecondRunOfACallIsAuthorizedAgain(t *testing.T) {
	f := &entries{scoped: true}
	e := rpc.NewEngine(f, new(log).logger(), func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			_, _ = next(ctx, c)
			return next(ctx, c)
		}
	})
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local, Scopes: []string{"a"}})
	c := callNamed(mcp.MethodCallTool, "a")
	if err := e.Authorize(ctx, c); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Serve(ctx, c); err != nil || !slices.Equal(f.served, []string{"a1", "a2"}) {
		t.Errorf("served by %q: %v", f.served, err)
	}
}

func callNamed(method, name string) *rpc.Call {
	params := jsonrpc.AppendString([]byte(`{"name":`), name)
	return &rpc.Call{Call: *call.New(call.Description{
		Method: method, ID: jsonrpc.IntID(1), Revision: mcp.V20250326, Params: jsonrpc.MembersOf(append(params, '}')),
	})}
}
