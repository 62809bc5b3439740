// Command machine is a client without a user: it gets its access tokens with the client
// credentials grant (the extension io.modelcontextprotocol/oauth-client-credentials). See
// ../authorized for a server.
//
//	REPORT_SECRET=… go run ./examples/machine http://127.0.0.1:8080/mcp
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
)

func main() {
	if len(os.Args) != 2 || os.Getenv("REPORT_SECRET") == "" {
		log.Fatal("usage: REPORT_SECRET=… machine URL")
	}
	ctx, url := context.Background(), os.Args[1]
	d := client.Dialer{Auth: &oauth.Client{
		Grant: &oauth.ClientCredentials{},
		Registrations: []oauth.Registration{{
			Server:       url, // or Issuer, for all servers that use it
			ClientID:     "nightly-report",
			ClientSecret: os.Getenv("REPORT_SECRET"),
		}},
	}}
	c, err := d.Dial(ctx, client.URL(url))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	text, err := client.CallTool[string](ctx, c, "list", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}
