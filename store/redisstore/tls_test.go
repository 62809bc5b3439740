//go:build integration

package redisstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes a certificate for 127.0.0.1 and its key to files, and returns a pool that
// trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER), pool
}

func TestTLS(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		certFile, keyFile, pool := certificate(t)
		secure := freeAddr(t)
		_, port, _ := net.SplitHostPort(secure)
		server := start(t, program, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
			"--tls-ca-cert-file", certFile, "--tls-auth-clients", "no")

		o := at(secure)
		o.TLS = &tls.Config{RootCAs: pool}
		s := connect(t, o)
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		if _, err := s.Put(ctx, "k", []byte("value"), hour); err != nil {
			t.Fatal(err)
		}
		if err := s.Publish(ctx, "t", []byte("message")); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, subscription); string(m.Data) != "message" {
			t.Errorf("received %+v", m)
		}

		for name, o := range map[string]Options{
			"x509":      {Addrs: []string{secure}, TLS: &tls.Config{}},
			"and TLS":   {Addrs: []string{server.addr}, TLS: &tls.Config{RootCAs: pool}},
			"EOF|reset": {Addrs: []string{secure}},
		} {
			wantOpenError(t, o, ErrUnavailable, name)
		}
	})
}

// wantOpenError checks that Open fails with an error that contains one of several texts.
func wantOpenError(t *testing.T, o Options, want error, texts string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := Open(ctx, o)
	if err == nil {
		_ = s.Close()
	}
	if want != nil && !errors.Is(err, want) || err == nil {
		t.Errorf("Open(%+v): %v, want %v", o, err, want)
		return
	}
	for _, text := range strings.Split(texts, "|") {
		if strings.Contains(err.Error(), text) {
			return
		}
	}
	t.Errorf("Open: %v, want an error with %q", err, texts)
}
