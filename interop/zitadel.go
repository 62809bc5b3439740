//go:build ignore

// Command zitadel is the example OpenID provider of zitadel/oidc on a free port of the loopback interface. It prints
// its issuer. The user test-user2 has the password verysecure, and the client web has the secret "secret". With -jwt,
// access tokens are JSON Web Tokens. The dependencies are in zitadel.mod, because the workspace does not have them:
//
//	GOWORK=off go run -modfile=zitadel.mod zitadel.go
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// jwtStorage makes the access tokens of all clients JSON Web Tokens.
type jwtStorage struct{ *storage.Storage }

type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (s jwtStorage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return jwtClient{c}, nil
}

func main() {
	jwt := flag.Bool("jwt", false, "issue access tokens that are JSON Web Tokens")
	redirect := flag.String("redirect", "", "redirect `URI` of the client web")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	issuer := "http://" + listener.Addr().String()
	storage.RegisterClients(storage.WebClient("web", "secret", *redirect))
	var stored exampleop.Storage = storage.NewStorage(storage.NewUserStore(issuer))
	if *jwt {
		stored = jwtStorage{stored.(*storage.Storage)}
	}
	handler := exampleop.SetupServer(issuer, stored, slog.New(slog.DiscardHandler), false)
	fmt.Println(issuer)
	log.Fatal(http.Serve(listener, handler))
}
