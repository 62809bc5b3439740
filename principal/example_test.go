package principal_test

import (
	"fmt"

	"github.com/parley-mcp/parley/principal"
)

func ExampleNew() {
	ada, err := principal.New("https://as.example", "ada", "editor")
	if err != nil {
		panic(err)
	}
	fmt.Println(ada)
	fmt.Println(ada.Key() + "session/1")
	// Output:
	// ada at https://as.example through editor
	// user/https%3A%2F%2Fas.example/ada/editor/session/1
}
