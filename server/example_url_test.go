package server_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// The handler does not wait while the user is busy: it rejects the call, and the client is notified when to repeat it.
func Example_requiredURL() {
	var paid atomic.Bool
	s := &server.Server{Name: "shop", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "buy"}, func(ctx context.Context, _ struct{}) (string, error) {
		if !paid.Load() {
			return "", &call.URLRequiredError{URLs: []call.RequiredURL{{
				URL: "https://shop.example/bill?id=1", Message: "Pay the bill.",
				Done: func(context.Context) (bool, error) { return paid.Load(), nil },
			}}}
		}
		return "Thank you!", nil
	})
	d := client.Dialer{Revision: mcp.V20251125, ElicitURL: func(_ context.Context,
		page *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println(page.Message, page.URL)
		time.AfterFunc(10*time.Millisecond, func() { paid.Store(true) }) // the user pays on the page
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}}
	near, far := transport.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(context.Background(), far) }()
	c, err := d.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	text, err := client.CallTool[string](context.Background(), c, "buy", nil)
	fmt.Println(text, err)
	_ = c.Close()
	<-served
	// Output:
	// Pay the bill. https://shop.example/bill?id=1
	// Thank you! <nil>
}

// A payment must not pass through the client: the user makes it on a page, and the handler
// continues afterwards.
func ExampleElicitURL() {
	var paid atomic.Bool // set by the page
	s := &server.Server{Name: "shop", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "buy"}, func(ctx context.Context, _ struct{}) (string, error) {
		err := server.ElicitURL(ctx, "https://shop.example/bill?id=1", "Pay the bill.",
			func(context.Context) (bool, error) { return paid.Load(), nil })
		return "Thank you!", err
	})

	// A client whose user agrees to open the page, and pays.
	d := client.Dialer{ElicitURL: func(_ context.Context, page *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println(page.Message, page.URL)
		paid.Store(true)
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}}
	near, far := transport.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(context.Background(), far) }()
	c, err := d.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	text, err := client.CallTool[string](context.Background(), c, "buy", nil)
	fmt.Println(text, err)
	_ = c.Close()
	<-served
	// Output:
	// Pay the bill. https://shop.example/bill?id=1
	// Thank you! <nil>
}
