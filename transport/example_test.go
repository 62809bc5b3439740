package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/parley-mcp/parley/transport"
)

func ExamplePipe() {
	ctx := context.Background()
	client, server := transport.Pipe()
	client.Write(ctx, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	client.Close()
	for {
		msg, err := server.Read(ctx)
		if err == io.EOF {
			break
		}
		fmt.Printf("%s\n", msg)
	}
	// Output: {"jsonrpc":"2.0","id":1,"method":"ping"}
}

// A server on a socket uses the same format as over standard input and output.
func ExampleStream() {
	ctx := context.Background()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	go func() {
		accepted, err := listener.Accept()
		if err != nil {
			return
		}
		conn := transport.Stream(accepted, transport.StreamOptions{})
		defer conn.Close()
		for {
			msg, err := conn.Read(ctx)
			if err != nil {
				return
			}
			conn.Write(ctx, msg)
		}
	}()

	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		panic(err)
	}
	conn := transport.Stream(dialled, transport.StreamOptions{})
	defer conn.Close()
	conn.Write(ctx, []byte(`{"hello":"world"}`))
	msg, err := conn.Read(ctx)
	fmt.Printf("%s %v\n", msg, err)
	// Output: {"hello":"world"} <nil>
}

func ExampleStartCommand() {
	server, err := transport.StartCommand(transport.CommandOptions{
		Path: "npx",
		Args: []string{"-y", "@modelcontextprotocol/server-everything"},
		Env:  []string{"API_TOKEN=…"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	server.Write(context.Background(), []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
}
