// Command clientcert is a server whose callers present certificates (mutual TLS) from their company's
// authority.
//
//	go run ./examples/clientcert -addr 127.0.0.1:8443 -cert server.pem -key server-key.pem -ca company.pem
//	curl --cacert company.pem --cert ada.pem --key ada-key.pem https://localhost:8443/mcp …
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// tlsConfig returns a configuration that accepts only certificates of the authorities in a PEM file.
func tlsConfig(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s contains no certificate", file)
	}
	return &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities,
		MinVersion: tls.VersionTLS13}, nil
}

// authenticate puts the owner of the client's certificate into the context of each request.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 { // PeerCertificates may not have been verified
			http.Error(w, "connect with a certificate of the company", http.StatusUnauthorized)
			return
		}
		leaf := r.TLS.VerifiedChains[0][0]
		who, err := principal.New(leaf.Issuer.String(), leaf.Subject.CommonName, "")
		if err != nil {
			http.Error(w, "the certificate has no common name that can be used", http.StatusUnauthorized)
			return
		}
		info := &auth.Info{Principal: who, Expiry: leaf.NotAfter}
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), info)))
	})
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8443", "address to listen on")
	cert := flag.String("cert", "server.pem", "PEM file with the certificate of the server")
	key := flag.String("key", "server-key.pem", "PEM file with its private key")
	ca := flag.String("ca", "company.pem", "PEM file with the authorities of the clients' certificates")
	flag.Parse()
	s := &server.Server{Name: "clientcert", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "whoami", Description: "Name the caller"},
		func(ctx context.Context, _ struct{}) (string, error) { return server.PrincipalOf(ctx).Subject(), nil })
	config, err := tlsConfig(*ca)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving MCP on https://%s/mcp", listener.Addr())
	web := &http.Server{Handler: authenticate(s), TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.ServeTLS(listener, *cert, *key))
}
