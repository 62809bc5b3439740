// Gateway serves an MCP server at another address: as a gateway, or as a reverse proxy that does not read the messages.
// Its arguments are "gateway" or "proxy" and the URL of the server. It writes its address to standard output and then,
// for each line of standard input, the CPU time used so far in nanoseconds. It runs on Unix.
//
// With the arguments "stdio" and a program, it serves standard input and output as a gateway to the program.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime/pprof"
	"syscall"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: gateway gateway|proxy URL, or gateway stdio PROGRAM")
	}
	defer profile()()
	if os.Args[1] == "stdio" {
		s, g := gatewayTo(client.Command(os.Args[2]))
		if err := g.WaitReady(context.Background()); err != nil {
			log.Fatal(err)
		}
		if err := s.Run(context.Background()); err != nil {
			log.Fatal(err)
		}
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	handler := newProxy
	if os.Args[1] == "gateway" {
		handler = newGateway
	}
	h, ready := handler(os.Args[2])
	go func() { log.Fatal(http.Serve(listener, h)) }()
	ready("http://" + listener.Addr().String())
	fmt.Println(listener.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			log.Fatal(err)
		}
		fmt.Println(used.Utime.Nano() + used.Stime.Nano())
	}
}

// profile writes a CPU profile of a gateway to the file GATEWAY_PROFILE, if it is set. The caller must call stop.
func profile() (stop func()) {
	path := os.Getenv("GATEWAY_PROFILE")
	if path == "" || os.Args[1] == "proxy" {
		return func() {}
	}
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		log.Fatal(err)
	}
	return pprof.StopCPUProfile
}

func newProxy(upstream string) (h http.Handler, ready func(self string)) {
	to, err := url.Parse(upstream)
	if err != nil {
		log.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without full duplex, net/http closes the body of the request when the response begins, while the transport
		// may still look for its end; then the transport closes its connection.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			log.Fatal(err)
		}
		proxy.ServeHTTP(w, r)
	}), func(string) {}
}

// gatewayTo returns a server that presents another one, and its gateway, which runs.
func gatewayTo(upstream client.Target) (*server.Server, *gateway.Gateway) {
	servers := &host.Host{Logger: slog.New(slog.DiscardHandler),
		Servers: []host.ServerConfig{{Name: "up", Target: upstream}}}
	s := &server.Server{Name: "gateway", Limits: server.Limits{CallsPerSecond: 1e9}}
	g, err := gateway.New(servers, s)
	if err != nil {
		log.Fatal(err)
	}
	if err := servers.Start(); err != nil {
		log.Fatal(err)
	}
	go g.Run(context.Background())
	return s, g
}

func newGateway(upstream string) (h http.Handler, ready func(self string)) {
	s, _ := gatewayTo(client.URL(upstream))
	return s, func(self string) {
		c, err := client.Dial(context.Background(), client.URL(self))
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		for _, err := range c.Watch(context.Background(), client.WatchFilter{Tools: true}) {
			if err != nil {
				log.Fatal(err)
			}
			for range c.Tools(context.Background(), client.WithRefresh()) {
				return
			}
		}
	}
}
