package browser_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/parley-mcp/parley/auth/oauth/browser"
)

// On a machine without a browser, the user opens the URL on another machine, with a tunnel
// to the port.
func ExampleShowURL() {
	show := browser.ShowURL(os.Stdout)
	l := &browser.Loopback{RedirectURI: "http://127.0.0.1:33418/callback", Open: show}
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
