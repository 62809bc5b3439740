// Command parley serves the tools with Parley.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"log"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"

	"github.com/parley-mcp/parley/bench/tmdevlab/shop"
)

func main() {
	shared := flag.Bool("store", false, "keep sessions in Redis, encrypted, as docs/program/scale.md explains")
	rate := flag.Float64("calls-per-second", -1, "limit for each caller; 0 means the default of the library")
	w, redis := shop.Parse("parley")
	// In 2026-07-28 all users of one address share a limit, which is 1,000 calls a second by default.
	s := &server.Server{Name: "shop", Version: "1.0.0", Limits: server.Limits{CallsPerSecond: *rate}}
	server.AddTool(s, mcp.Tool{Name: "search_products", Description: shop.SearchText}, w.Search)
	server.AddTool(s, mcp.Tool{Name: "get_user_cart", Description: shop.CartText}, w.Cart)
	server.AddTool(s, mcp.Tool{Name: "checkout", Description: shop.CheckoutText}, w.Checkout)
	if *shared {
		store, err := redisstore.Open(context.Background(), redisstore.Options{Addrs: []string{redis}, Prefix: "shop:"})
		if err != nil {
			log.Fatal(err)
		}
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		s.Store, s.Keys = store, [][]byte{key}
	}
	shop.Serve(s)
}
