// Command login is a client whose user logs in with a browser when the server requires it, and
// again when a tool requires another scope. See ../authorized for a server.
//
//	go run ./examples/login http://127.0.0.1:8080/mcp
//	go run ./examples/login -store tokens http://127.0.0.1:8080/mcp # the next start needs no login
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"strings"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/client"
)

func main() {
	show := flag.Bool("print-url", false, "print the address instead of opening the browser")
	file := flag.String("store", "", "file that keeps the login; its key is in the file FILE.key")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: login [-print-url] [-store FILE] URL")
	}
	loopback := &browser.Loopback{} // opens the browser, and waits for its redirect
	if *show {
		loopback.Open = browser.ShowURL(os.Stdout)
	}
	user := &oauth.Client{
		Name:        "The login example", // shown to users
		Interaction: loopback,
		Approve: func(_ context.Context, r oauth.AuthorizationRequest) ([]string, error) {
			fmt.Printf("%s requires %s\n", r.Server, strings.Join(r.Scopes, " and "))
			return r.Scopes, nil // can also return fewer scopes, or an error
		},
	}
	if *file != "" {
		store, err := openStore(*file)
		if err != nil {
			log.Fatal(err)
		}
		user.Store = store
	}
	if err := run(context.Background(), user, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

// openStore opens the encrypted file that stores the tokens, and creates a key if there is none. A key in a
// file protects only copies of the other file, so keep it in the keyring of the operating system if you can.
func openStore(file string) (*tokenstore.File, error) {
	key, err := os.ReadFile(file + ".key")
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		err = os.WriteFile(file+".key", key, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return tokenstore.OpenFile(file, key)
}

func run(ctx context.Context, user *oauth.Client, url string) error {
	d := client.Dialer{Name: "login", Auth: user}
	c, err := d.Dial(ctx, client.URL(url))
	if err != nil {
		return err
	}
	defer c.Close()
	for _, call := range []struct {
		tool      string
		arguments any
	}{{"list", nil}, {"add", map[string]string{"text": "buy milk"}}, {"list", nil}} {
		text, err := client.CallTool[string](ctx, c, call.tool, call.arguments)
		if err != nil {
			return err
		}
		fmt.Println(text)
	}
	return nil
}
