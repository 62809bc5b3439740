package devissuer_test

import (
	"fmt"

	"github.com/parley-mcp/parley/auth/devissuer"
)

// A test that needs only a token.
func ExampleIssuer_Token() {
	issuer, err := devissuer.Start(devissuer.Config{Scopes: []string{"files:read"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer issuer.Close()

	token, err := issuer.Token("ada", "http://127.0.0.1:8080/mcp", "files:read")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(token) > 0) // for the header "Authorization: Bearer …"
	// Output: true
}
