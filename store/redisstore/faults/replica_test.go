//go:build integration && unix

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"
)

// settings are the settings of a replica, as JSON in replicaVariable.
type settings struct {
	Name    string
	Redis   string // address
	Journal string // file
	Key     []byte
}

// The issuer and the audience of the tokens, which are the names of the users.
const (
	issuer   = "https://login.example.com"
	resource = "https://mcp.example.com/mcp"
)

// runReplica serves until it receives SIGTERM, and then ends gracefully. It prints its address.
func runReplica(text string) error {
	var o settings
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := redisstore.Open(ctx, redisstore.Options{Addrs: []string{o.Redis}})
	if err != nil {
		return err
	}
	defer db.Close()
	journal, err := ledger.OpenJournal(o.Journal)
	if err != nil {
		return err
	}
	defer journal.Close()
	s := &server.Server{
		Name: "replica", Version: "1.0.0",
		KV: db, Log: db, Bus: db, Keys: [][]byte{o.Key},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Auth:   &auth.ProtectedResource{URI: resource, Issuers: []string{issuer}, Verifier: auth.VerifierFunc(verify)},
	}
	r := &replica{settings: o, server: s, db: db, journal: journal}
	r.offer(ctx)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	defer context.AfterFunc(ctx, printIfSlow)()
	return s.Serve(ctx, listener)
}

// printIfSlow prints all goroutines shortly before Serve cancels the calls in flight, so that the output tells what they
// wait for. A replica that ends in time does not reach it.
func printIfSlow() {
	timer := time.NewTimer(4 * time.Second)
	defer timer.Stop()
	<-timer.C
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
}

// verify accepts the name of a user as a token.
func verify(_ context.Context, token string) (*auth.Info, error) {
	if !strings.HasPrefix(token, "user-") {
		return nil, &auth.InvalidTokenError{Reason: "unknown token"}
	}
	p, err := principal.New(issuer, token, "")
	return &auth.Info{Principal: p, Audience: []string{resource}}, err
}
