package endpoint

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// writeCertificate writes a certificate for 127.0.0.1 with a serial number and its key, as PEM.
func writeCertificate(t *testing.T, serial int64, certFile, keyFile string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if file != "" {
			replaceFile(t, file, pem.EncodeToMemory(block))
		}
	}
}

// replaceFile replaces a file as programs that renew certificates do. Its time differs from that of the last one.
func replaceFile(t *testing.T, path string, text []byte) {
	t.Helper()
	time := time.Now()
	if info, err := os.Stat(path); err == nil && !time.After(info.ModTime()) {
		time = info.ModTime().Add(1e6)
	}
	for _, err := range []error{os.WriteFile(path+".new", text, 0o600), os.Chtimes(path+".new", time, time),
		os.Rename(path+".new", path)} {
		must.Do(t, err)
	}
}

// serial sends a request, and returns the serial number of the certificate, the version of HTTP, and whether the
// connection is an old one.
func (s *served) serial(t *testing.T) (serial int64, version int, reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
	r := must.Get(http.NewRequestWithContext(ctx, "POST", s.url+Path, strings.NewReader(initialize)))(t)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	resp := must.Get(s.client.Do(r))(t)
	resp.Body.Close()
	must.CheckEqual(t, resp.StatusCode, http.StatusOK, resp.Status)
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), resp.ProtoMajor, reused
}

func TestRenewedCertificatesAreServedToNewConnections(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, 1, cert, key)
	s := must.Get(serveWith(t, new(Flags), "--tls-cert", cert, "--tls-key", key))(t)
	must.That(t, strings.HasPrefix(s.url, "https://"), "printed %s", s.output)
	insecure := func() *http.Transport { // the test compares the certificates
		return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	}
	s.client.Transport = insecure()
	check := func(when string, want int64, wantReused bool) {
		t.Helper()
		if serial, version, reused := s.serial(t); serial != want || version != 2 || reused != wantReused {
			t.Errorf("%s: certificate %d over HTTP/%d, old connection: %v; want certificate %d, %v", when, serial,
				version, reused, want, wantReused)
		}
	}
	fresh := &served{s.url, s.output, s.flags, &http.Client{Transport: insecure()}}
	t.Cleanup(fresh.client.CloseIdleConnections)
	renewed := func() (serial int64) {
		t.Helper()
		fresh.client.CloseIdleConnections()
		serial, _, _ = fresh.serial(t)
		return serial
	}
	check("at first", 1, false)
	writeCertificate(t, 2, cert, key)
	if serial := renewed(); serial != 2 || !strings.Contains(s.output.String(), "loaded the renewed certificate") {
		t.Errorf("certificate %d after the renewal: %s", serial, s.output)
	}
	check("a connection from before the renewal", 1, true)

	writeCertificate(t, 3, cert, "") // its key is missing
	for range 3 {
		must.CheckEqual(t, renewed(), 2, "after a renewal that failed")
	}
	out := s.output.String()
	must.CheckThat(t, strings.Count(out, "the previous certificate stays in use") == 1 &&
		strings.Contains(out, "private key does not match"), "printed %s", out)
	writeCertificate(t, 4, cert, key)
	must.CheckEqual(t, renewed(), 4, "after a correct renewal")
	must.Do(t, os.Remove(key))
	if serial := renewed(); serial != 4 || !strings.Contains(s.output.String(), "cannot read the key") {
		t.Errorf("certificate %d without its key: %s", serial, s.output)
	}
	check("the first connection", 1, true)
}

func TestTLSIsRequiredAndAtLeast12(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, 1, cert, key)
	s := must.Get(serveWith(t, new(Flags), "--tls-cert", cert, "--tls-key", key))(t)
	address := strings.TrimPrefix(s.url, "https://")
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true,
		tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: version,
			MaxVersion: version})
		must.CheckThat(t, (err == nil) == want, "version %x: %v", version, err)
		if err == nil {
			conn.Close()
		}
	}
	resp, body := s.request(t, "POST", "http://"+address+Path,
		initialize)
	must.CheckThat(t, resp.StatusCode == http.StatusBadRequest && strings.Contains(body, "HTTPS"),
		"without TLS: %s %s", resp.Status, body)
	writeCertificate(t, 2, cert, "")
	_, err := serveWith(t, new(Flags), "--tls-cert", cert, "--tls-key", key)
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "private key does not match") &&
		strings.Contains(err.Error(), "--tls-key"), "with another key: %v", err)
}
