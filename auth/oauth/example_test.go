package oauth_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// The user logs in with the browser when the server requires it, and stays logged in.
func ExampleClient() {
	key := make([]byte, 32) // for example from the keyring of the operating system
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

// A program that acts on its own behalf.
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

// On a machine without a browser, the user opens the URL on another machine, with a tunnel
// to the port.
func ExampleShowURL() {
	show := oauth.ShowURL(os.Stdout)
	l := &oauth.Loopback{RedirectURI: "http://127.0.0.1:33418/callback", Open: show}
	if err := show(context.Background(), "https://as.example/authorize"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.RedirectURI)
	// Output:
	// To log in, open this address in a browser:
	//
	//   https://as.example/authorize
	//
	// http://127.0.0.1:33418/callback
}

// A program that shows the login of its user.
func ExampleClient_Status() {
	logins := &oauth.Client{Store: &oauth.MemoryStore{}} // the store of the program
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

// A tool of an MCP server with several replicas calls another server for its user, who logs in there
// with a browser. Each user needs a Client of their own.
func ExampleWeb() {
	key, err := os.ReadFile("login.key") // at least 32 random bytes, the same for all replicas
	if err != nil {
		log.Fatal(err)
	}
	var shared store.Store // for example a redisstore.Store
	login := &oauth.Web{
		URL: "https://mcp.example.com/login",
		Open: func(ctx context.Context, url string) error {
			return server.ElicitURL(ctx, url, "Log in to the code host.", nil)
		},
		User: func(ctx context.Context) (string, error) { return server.PrincipalOf(ctx).Subject(), nil },
		Visitor: func(w http.ResponseWriter, r *http.Request) (user string, ok bool) {
			user = userOfCookie(r) // set by the login page of this program
			if user == "" {
				http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			}
			return user, user != ""
		},
		Store: shared,
		Keys:  [][]byte{key},
	}
	http.Handle("/login/", login)
	d := client.Dialer{Auth: &oauth.Client{Interaction: login}}
	_ = d
}

func userOfCookie(*http.Request) string { return "" }
