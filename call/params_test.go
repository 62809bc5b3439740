package call_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

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
