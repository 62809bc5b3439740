package jsonrpc_test

import (
	"fmt"

	"github.com/parley-mcp/parley/jsonrpc"
)

func ExampleParse() {
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"greet",`+
		`"arguments":{"who":"Ada"}}}`), jsonrpc.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	name, _ := m.Params.Get("name")
	arguments, _ := m.Params.Get("arguments")
	fmt.Println(m.Kind == jsonrpc.Request, m.ID, m.Method, jsonrpc.Unquote(name), string(arguments))

	// Parse rejects input that two parsers could read differently.
	_, err = jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`),
		jsonrpc.Limits{})
	fmt.Println(err)
	// Output:
	// true "a-1" tools/call greet {"who":"Ada"}
	// invalid message: duplicate key at byte 46
}

func ExampleAppendRequest() {
	buf := make([]byte, 0, 512) // can be reused for the next message
	buf = jsonrpc.AppendRequest(buf, jsonrpc.IntID(1), "resources/read", []byte(`{"uri":"file:///a"}`))
	fmt.Println(string(buf))
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}
}

func ExampleIntID() {
	fmt.Println(jsonrpc.IntID(9007199254740993), jsonrpc.StringID("9007199254740993"))
	fmt.Println(jsonrpc.IntID(1) == jsonrpc.StringID("1"))
	// Output:
	// 9007199254740993 "9007199254740993"
	// false
}
