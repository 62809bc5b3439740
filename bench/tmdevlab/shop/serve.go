package shop

import (
	"flag"
	"log"
	"net/http"
	"net/http/pprof"
	"time"
)

var (
	addr  = flag.String("addr", "127.0.0.1:8081", "address to serve on")
	admin = flag.String("admin", "", "address for /debug/pprof, by default none")
	api   = flag.String("api", "http://127.0.0.1:8100", "URL of the HTTP service")
	store = flag.String("redis", "127.0.0.1:6379", "address of Redis")
)

// Parse reads the command line, which is the same for all servers, and returns the work and the address of Redis.
func Parse(name string) (*Work, string) {
	flag.Parse()
	return New(name, *api, *store), *store
}

// Serve serves MCP at /mcp until the process is killed.
func Serve(mcp http.Handler) {
	if *admin != "" {
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		go func() { log.Fatal(http.ListenAndServe(*admin, mux)) }()
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	s := &http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	log.Fatal(s.ListenAndServe())
}
