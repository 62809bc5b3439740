package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

func TestErrorsMatchByCode(t *testing.T) {
	err := fmt.Errorf("calling: %w", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no tool %q", "x"))
	if !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}) {
		t.Error("the error does not match its code")
	}
	if !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `no tool "x"`}) {
		t.Error("the error does not match its code and message")
	}
	for _, other := range []error{
		&jsonrpc.Error{Code: jsonrpc.CodeInternalError}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "other"}, errors.New(`no tool "x" (code -32602)`),
	} {
		if errors.Is(err, other) {
			t.Errorf("the error matches %v", other)
		}
	}
	var found *jsonrpc.Error
	if !errors.As(err, &found) || found.Error() != `no tool "x" (code -32602)` {
		t.Errorf("errors.As found %v", found)
	}
}

func TestAppendErrorWritesTheSameAsEncodingJSON(t *testing.T) {
	for _, e := range []*jsonrpc.Error{
		{Code: 1, Message: "m"}, {Code: -32700, Message: "é\n\"", Data: json.RawMessage(`{"a":[1]}`)}, {Data: json.RawMessage(`null`)},
	} {
		std, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(jsonrpc.AppendError(nil, jsonrpc.IntID(1), e, false)), `{"jsonrpc":"2.0","id":1,"error":`+string(std)+`}`; got != want {
			t.Errorf("AppendError writes %s, encoding/json %s", got, want)
		}
	}
}
