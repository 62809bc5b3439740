package oauth_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
)

// A user logs in with their browser when the server wants that, and stays logged in.
func ExampleClient() {
	key := make([]byte, 32) // from the system's keyring, for example
	store, err := oauth.NewFileStore("tokens", key)
	if err != nil {
		log.Fatal(err)
	}
	d := client.Dialer{Auth: &oauth.Client{
		Name:        "My program",
		Interaction: &oauth.Loopback{},
		Store:       store,
	}}
	c, err := d.Dial(context.Background(), client.URL("https://example.com/mcp"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// A program acts for itself.
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

// On a machine without a browser the user opens the address elsewhere, and the
// browser comes back through a tunnel to the port.
func ExampleShowURL() {
	show := oauth.ShowURL(os.Stdout)
	l := &oauth.Loopback{Port: 33418, Open: show}
	if err := show(context.Background(), "https://as.example/authorize"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Port)
	// Output:
	// To log in, open this address in a browser:
	//
	//   https://as.example/authorize
	//
	// 33418
}

// A program that shows its user what they are logged in to. Nothing of it is secret.
func ExampleClient_Status() {
	logins := &oauth.Client{Store: &oauth.MemoryStore{}} // the one that the program's other Clients have
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
