package examples

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
)

// Each program's own tests attack it; this test runs it as its comment says.
func TestProgramsWithTheirOwnAuthenticationKnowTheirUsers(t *testing.T) {
	digest := auth.HashKey("4c6f7665")
	t.Setenv("USERS", "ada="+digest)
	t.Setenv("KEYS", "ada="+digest)
	for _, tc := range []struct {
		name   string
		header func(url string) http.Header
	}{
		{"ownkey", func(string) http.Header { return http.Header{"X-Company-Key": {"4c6f7665"}} }},
		{"basicauth", func(string) http.Header {
			return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("ada:4c6f7665"))}}
		}},
		{"cookie", func(at string) http.Header {
			c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			resp := must.Get(c.PostForm(strings.TrimSuffix(at, "/mcp")+"/login",
				url.Values{"user": {"ada"}, "password": {"4c6f7665"}}))(t)
			defer resp.Body.Close()
			return http.Header{"Cookie": {"session=" + resp.Cookies()[0].Value}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, _ := overHTTP(t, tc.name, "-addr")
			c := must.Get(client.Dial(t.Context(), &client.HTTPTarget{URL: at, Header: tc.header(at)}))(t)
			defer c.Close()
			must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "whoami", nil))(t), "ada")
			if c, err := client.Dial(t.Context(), client.URL(at)); err == nil {
				t.Errorf("a request of nobody: %v", c)
			}
		})
	}
}

func TestBehindProxy(t *testing.T) {
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[]}`))
	}))
	defer keys.Close()
	at, _ := overHTTP(t, "behindproxy", "-addr", "-issuer", "https://proxy.example", "-audience", "x", "-keys", keys.URL)
	c, err := client.Dial(t.Context(), &client.HTTPTarget{URL: at,
		Header: http.Header{"Cf-Access-Jwt-Assertion": {"ada"}, "X-Forwarded-User": {"ada"}}})
	if err == nil {
		t.Errorf("a request that the proxy has not signed: %v", c)
	}
}

// One certificate is the authority, the server and ada.
func TestClientCert(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ada"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key))(t)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	cert := write("cert.pem", "CERTIFICATE", der)
	private := write("key.pem", "PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(key))(t))
	at, _ := overHTTP(t, "clientcert", "-addr", "-cert", cert, "-key", private, "-ca", cert)
	roots := x509.NewCertPool()
	roots.AddCert(must.Get(x509.ParseCertificate(der))(t))
	connect := func(certs ...tls.Certificate) (*client.Client, error) {
		web := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs}}
		t.Cleanup(web.CloseIdleConnections)
		return (&client.Dialer{HTTPClient: &http.Client{Transport: web}}).Dial(t.Context(), client.URL(at))
	}
	c := must.Get(connect(tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}))(t)
	defer c.Close()
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "whoami", nil))(t), "ada")
	if c, err := connect(); err == nil {
		t.Errorf("a client without a certificate: %v", c)
	}
}
