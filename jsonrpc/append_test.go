package jsonrpc_test

import (
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

func TestAppendWritesEachKindOfMessage(t *testing.T) {
	seven, text := jsonrpc.IntID(7), jsonrpc.StringID("a\"b")
	failure := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no\nsuch"}
	detailed := &jsonrpc.Error{Code: 5, Message: "", Data: []byte(`[1]`)}
	for _, tc := range []struct{ got, want string }{
		{string(jsonrpc.AppendRequest(nil, seven, "ping", nil)), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{string(jsonrpc.AppendRequest(nil, text, "a\"b", []byte(`{"x":1}`))), `{"jsonrpc":"2.0","id":"a\"b","method":"a\"b","params":{"x":1}}`},
		{string(jsonrpc.AppendRequest(nil, seven, "ping", []byte{})), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{string(jsonrpc.AppendNotification(nil, "n", nil)), `{"jsonrpc":"2.0","method":"n"}`},
		{string(jsonrpc.AppendNotification(nil, "n", []byte(`{}`))), `{"jsonrpc":"2.0","method":"n","params":{}}`},
		{string(jsonrpc.AppendResult(nil, text, []byte(`{}`))), `{"jsonrpc":"2.0","id":"a\"b","result":{}}`},
		{string(append(jsonrpc.AppendResultHead(nil, seven), `{}}`...)), `{"jsonrpc":"2.0","id":7,"result":{}}`},
		{string(jsonrpc.AppendError(nil, seven, failure, false)), `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendError(nil, seven, detailed, true)), `{"jsonrpc":"2.0","id":7,"error":{"code":5,"message":"","data":[1]}}`},
		{string(jsonrpc.AppendError(nil, jsonrpc.ID{}, failure, true)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendError(nil, jsonrpc.ID{}, failure, false)), `{"jsonrpc":"2.0","error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendRequest([]byte("before"), seven, "m", nil)), `before{"jsonrpc":"2.0","id":7,"method":"m"}`},
		{string(jsonrpc.AppendError([]byte("before"), seven, detailed, false)), `before{"jsonrpc":"2.0","id":7,"error":{"code":5,"message":"","data":[1]}}`},
	} {
		if tc.got != tc.want {
			t.Errorf("wrote %s, want %s", tc.got, tc.want)
		}
	}
}
