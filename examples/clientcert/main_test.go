package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "company"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, own, own, &a.key.PublicKey, a.key))(t)
	a.cert = must.Get(x509.ParseCertificate(der))(t)
	return a
}

// issue returns the certificate of a user.
func (a *authority) issue(user string, life time.Duration) tls.Certificate {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user}, NotAfter: time.Now().Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, of, a.cert, &key.PublicKey, a.key))(a.t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve serves a handler over TLS to clients with certificates of the authority.
func (a *authority) serve(h http.Handler) *httptest.Server {
	file := filepath.Join(a.t.TempDir(), "ca.pem")
	must.Do(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600))
	web := httptest.NewUnstartedServer(h)
	web.TLS, web.Config.ErrorLog = must.Get(tlsConfig(file))(a.t), log.New(io.Discard, "", 0)
	web.StartTLS()
	return web
}

// clientOf returns a client with certificates that trusts servers like web.
func clientOf(web *httptest.Server, certs ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs}}}
}

// Nothing of one user exists for another user.
func TestUsersCannotUseWhatOthersHave(t *testing.T) {
	company := newAuthority(t)
	clients := make(map[string]*http.Client)
	memory := store.NewMemory()
	replicatest.Principals(t, memory, memory, replicatest.Door{
		Protect: func(s *server.Server) http.Handler { return authenticate(s) },
		Start: func(h http.Handler) *httptest.Server {
			web := company.serve(h)
			for _, user := range []string{"ada", "bob"} {
				clients[user] = clientOf(web, company.issue(user, time.Hour))
				t.Cleanup(clients[user].CloseIdleConnections)
			}
			return web
		},
		Client: func(user string) *http.Client { return clients[user] },
	})
}

func TestCertificatesOfOthersAreRejected(t *testing.T) {
	company, other := newAuthority(t), newAuthority(t)
	web := company.serve(authenticate(&server.Server{}))
	defer web.Close()
	for name, certs := range map[string][]tls.Certificate{
		"none": nil, "another authority": {other.issue("ada", time.Hour)}, "expired": {company.issue("ada", -time.Minute)},
	} {
		c := clientOf(web, certs...)
		resp, err := c.Get(web.URL)
		if err == nil {
			t.Errorf("%s: %s", name, resp.Status)
			resp.Body.Close()
		}
		c.CloseIdleConnections()
	}
	// Behind a proxy that ends TLS, or with another configuration of TLS, nobody is authenticated.
	unverified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{company.cert}}
	for name, state := range map[string]*tls.ConnectionState{"no TLS": nil, "not verified": unverified} {
		r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
		r.TLS = state
		w := httptest.NewRecorder()
		authenticate(&server.Server{}).ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}
