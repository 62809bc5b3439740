package oauth_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/client"
)

// The user logs in with the browser when the server requires it, and stays logged in.
func ExampleClient() {
	key := make([]byte, 32) // for example from the keyring of the operating system
	store, err := tokenstore.OpenFile("tokens", key)
	if err != nil {
		log.Fatal(err)
	}
	d := client.Dialer{Auth: &oauth.Client{
		Name:        "My program",
		Interaction: &browser.Loopback{},
		Store:       store,
	}}
	c, err := d.Dial(context.Background(), client.URL("https://example.com/mcp"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// This program acts on its own behalf.
func ExampleClientCredentials() {
	auth := &oauth.Client{
		Grant: &oauth.ClientCredentials{},
		Registrations: []oauth.Registration{{
			Issuer:       "https://as.example",
			ClientID:     "nightly-report",
			ClientSecret: os.Getenv("REPORT_SECRET"),
		}},
	}
	d := client.Dialer{Auth: auth}
	_ = d
}

// This program shows the login of its user.
func ExampleClient_Status() {
	logins := &oauth.Client{Store: &tokenstore.Memory{}} // the store of the program
	status, err := logins.Status(context.Background(), "https://example.com/mcp")
	switch {
	case err != nil:
		log.Fatal(err)
	case status == nil:
		fmt.Println("not logged in")
	default:
		fmt.Println(status.Subject, status.Scopes, status.Expires)
	}
	// Output: not logged in
}
