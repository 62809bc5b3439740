package call_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// received returns the call of a server with these params.
func received(params string) *call.Call {
	return call.New(call.Description{Method: "m", Params: jsonrpc.MembersOf([]byte(params))})
}

func TestParamsAreReplacedWithoutMeta(t *testing.T) {
	for _, test := range []struct{ params, want string }{
		{`{"a":1,"_meta":{"k":2}}`, `{"b":3,"_meta":{"k":2}}`},
		{`{"a":1}`, `{"b":3}`},
		{``, `{"b":3}`},
	} {
		c := received(test.params)
		must.CheckEqual(t, c.ParamsBefore(), c.Params())
		must.Do(t, c.SetParams(map[string]int{"c": 0}))
		must.Do(t, c.SetParams(map[string]int{"b": 3}))
		must.CheckEqual(t, string(c.Params().Raw()), test.want)
		must.CheckEqual(t, string(c.ParamsBefore().Raw()), test.params)
	}
	for _, test := range []struct{ method, params, want string }{
		{mcp.MethodCallTool, `{"b":3}`, `{"b":3,"_meta":{},"task":{},"inputResponses":{"k":1},"requestState":"s"}`},
		{mcp.MethodGetPrompt, `{"task":{"ttl":1}}`,
			`{"task":{"ttl":1},"_meta":{},"inputResponses":{"k":1},"requestState":"s"}`},
		{"com.example/m", `{"b":3}`, `{"b":3,"_meta":{}}`},
	} {
		c := call.New(call.Description{Method: test.method, Params: jsonrpc.MembersOf([]byte(
			`{"a":1,"requestState":"s","task":{},"inputResponses":{"k":1},"_meta":{}}`))})
		must.Do(t, c.SetParams(json.RawMessage(test.params)))
		must.CheckEqual(t, string(c.Params().Raw()), test.want, test.method)
	}
	c := received(`{"_meta":{"k":2}}`)
	must.Do(t, c.SetParams(struct{}{}))
	must.CheckEqual(t, string(c.Params().Raw()), `{"_meta":{"k":2}}`)
	for want, params := range map[string]any{
		"must encode to a JSON object": []int{1},
		"use SetMeta":                  map[string]any{"_meta": 1},
		"cannot encode the params":     make(chan int),
	} {
		must.CheckFails(t, c.SetParams(params), want)
	}
}

func TestMetaIsSetOnAServer(t *testing.T) {
	for _, test := range []struct{ params, want string }{
		{`{"a":1,"_meta":{"com.example/k":2,"x":3}}`, `{"a":1,"_meta":{"x":3,"com.example/k":"new"}}`},
		{`{ "a" : 1 , "_meta" : { } }`, `{"a":1,"_meta":{"com.example/k":"new"}}`},
		{`{"_meta":{"com.example/k":null,"x":null}}`, `{"_meta":{"x":null,"com.example/k":"new"}}`},
		{`{"a":1,"_meta":5}`, `{"a":1,"_meta":{"com.example/k":"new"}}`},
		{``, `{"_meta":{"com.example/k":"new"}}`},
	} {
		c := received(test.params)
		must.Do(t, c.SetMeta("com.example/k", "new"))
		must.CheckEqual(t, string(c.Params().Raw()), test.want)
		must.CheckEqual(t, string(c.Meta("com.example/k")), `"new"`)
	}
	c := received(``)
	must.CheckIs(t, c.SetMeta(mcp.MetaProtocolVersion, "2000-01-01"), mcp.ErrMetaKey)
	must.CheckFails(t, c.SetMeta("com.example/k", make(chan int)), "cannot encode _meta")
}

// On a client, the added entries of _meta are not yet part of the params.
func TestMetaIsAddedOnAClient(t *testing.T) {
	added := mcp.Meta{}
	c := call.New(call.Description{Params: jsonrpc.MembersOf([]byte(`{"a":1}`)), Added: added})
	must.Do(t, c.SetMeta("com.example/k", 1))
	must.CheckEqual(t, string(c.Meta("com.example/k")), "1")
	must.CheckEqual(t, string(added["com.example/k"]), "1")
	must.CheckEqual(t, c.Params(), c.ParamsBefore())
}

func TestFiltersAreThoseOfTheMiddleware(t *testing.T) {
	c := received(``)
	must.CheckEqual(t, len(c.Filters()), 0)
	for _, deliver := range []bool{true, false} {
		c.OnNotification(func(n *call.Notification) bool {
			n.Params = json.RawMessage(`{}`)
			return deliver
		})
	}
	for i, want := range []bool{true, false} {
		n := call.Notification{Method: "notifications/x"}
		must.CheckEqual(t, c.Filters()[i](&n), want)
		must.CheckEqual(t, string(n.Params), `{}`)
	}
}

func TestParamsThatDoNotFitTheirTypeAreAnErrorForTheClient(t *testing.T) {
	of := func(method, params string) *call.Call {
		return call.New(call.Description{Method: method, Params: jsonrpc.MembersOf([]byte(params))})
	}
	read, err := call.ParamsOf[mcp.ReadResourceParams](of(mcp.MethodReadResource, `{"uri":"a:b","_meta":{"x.y/z":1}}`))
	must.CheckThat(t, err == nil && read.URI == "a:b" && string(read.Meta["x.y/z"]) == "1", "%+v, %v", read, err)
	list, err := call.ParamsOf[mcp.PaginatedParams](call.New(call.Description{Method: mcp.MethodListTools}))
	must.CheckThat(t, err == nil && list.Cursor == nil, "without params: %+v, %v", list, err)
	_, err = call.ParamsOf[mcp.CallToolParams](of(mcp.MethodCallTool, `{"name":7}`))
	must.CheckThat(t, errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}) &&
		strings.Contains(err.Error(), "tools/call: cannot decode the params as mcp.CallToolParams: "), "%v", err)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
