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
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/store"
)

// Eviction destroys tasks, so Open rejects it unless the caller allows it.
func TestOpenRejectsEviction(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		for _, policy := range []string{"allkeys-lru", "volatile-lru", "allkeys-random", "volatile-ttl"} {
			server.command("config", "set", "maxmemory-policy", policy)
			wantOpenError(t, at(server.addr), ErrEviction, "CONFIG SET maxmemory-policy noeviction")
			o := at(server.addr)
			o.AllowEviction = true
			must.Check(t, must.Err(connect(t, o).Put(ctx, "k", nil, hour)))
		}
		server.command("config", "set", "maxmemory-policy", "noeviction")
		connect(t, at(server.addr))
	})
}

func TestOpenExplainsErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program, "--requirepass", "secret")
		wantOpenError(t, at(server.addr), nil, "set Username and Password")
		wantOpenError(t, Options{Addrs: []string{server.addr}, Password: "wrong"}, nil, "check Username and Password")
		wantOpenError(t, Options{Addrs: []string{server.addr}, Password: "secret", Cluster: true}, nil, "cluster")
		wantOpenError(t, at(freeAddr(t)), ErrUnavailable, "connection refused")
		s := connect(t, Options{Addrs: []string{server.addr}, Password: "secret"})
		must.Check(t, must.Err(s.Put(ctx, "k", nil, hour)))
		must.Check(t, s.Close())
		_, err := s.Get(ctx, "k")
		must.CheckThat(t, errors.Is(err, errClosed), "Get after Close: %v, want errClosed", err)
		_, err = s.Subscribe(ctx, "t", 1)
		must.CheckThat(t, errors.Is(err, errClosed), "Subscribe after Close: %v, want errClosed", err)
	})
}

func TestOpenInClusterNeedsClusterOption(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		nodes := cluster(t, program)
		wantOpenError(t, at(nodes[0].addr), nil, "set Cluster")
		nodes[1].command("config", "set", "maxmemory-policy", "allkeys-lru")
		wantOpenError(t, inCluster(nodes), ErrEviction, "noeviction")
	})
}

// When maxmemory is reached, nothing is lost, and a task can still end.
func TestFullMemory(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		s := connect(t, at(server.addr))
		server.limitMemory(1 << 20)
		task, err := s.Put(ctx, "task", []byte(strings.Repeat("x", 100)), hour)
		must.Do(t, err)
		must.Do(t, s.Append(ctx, stream, 1, []byte("entry"), entries))
		must.Do(t, s.Add(ctx, "set", "member", time.Hour, 10))
		err = nil
		for i := 0; err == nil && i < 10_000; i++ {
			_, err = s.Put(ctx, fmt.Sprint("k", i), make([]byte, 1000), hour)
		}
		must.That(t, errors.Is(err, store.ErrFull) && strings.Contains(err.Error(), "raise"),
			"Put: %v, want ErrFull and what to do", err)
		if err := s.Append(ctx, stream, 2, nil, entries); !errors.Is(err, store.ErrFull) {
			t.Errorf("Append: %v, want ErrFull", err)
		}
		if err := s.Add(ctx, "set", "another", time.Hour, 10); !errors.Is(err, store.ErrFull) {
			t.Errorf("Add of a new member: %v, want ErrFull", err)
		}
		must.Check(t, s.Add(ctx, "set", "member", 2*time.Hour, 10), "Add of a member")
		if got, err := s.ReadAfter(ctx, stream, 0); err != nil || len(got) != 1 {
			t.Errorf("ReadAfter = %q, %v", got, err)
		}
		if _, err := s.Put(ctx, "task", []byte(strings.Repeat("x", 101)),
			store.PutOptions{TTL: time.Hour, IfVersion: task}); !errors.Is(err, store.ErrFull) {
			t.Errorf("Put of a longer value: %v, want ErrFull", err)
		}
		task, err = s.Put(ctx, "task", []byte("completed"),
			store.PutOptions{TTL: time.Hour, IfVersion: task})
		must.Check(t, err, "Put of a shorter value")
		if item, err := s.Touch(ctx, "task", 2*time.Hour); err != nil || string(item.Value) != "completed" ||
			item.Version != task {
			t.Errorf("Touch = %+v, %v", item, err)
		}
		must.Check(t, s.Publish(ctx, "t", []byte("message")), "Publish")
	})
}

// Items expire by the clock of Redis.
func TestItemsExpire(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := connect(t, at(start(t, program).addr))
		must.Do(t, must.Err(s.Put(ctx, "k", nil, store.PutOptions{TTL: 1})))
		must.Do(t, s.Add(ctx, "set", "member", 1, 1))
		wait(t, "everything has expired", func() error {
			list, err := s.List(ctx, "set", "", 10)
			if _, missing := s.Get(ctx, "k"); !errors.Is(missing, store.ErrNotFound) || len(list) > 0 {
				err = fmt.Errorf("Get: %w, List: %q", missing, list)
			}
			return err
		})
	})
}

// Stores with another prefix or database share nothing.
func TestPrefixesAndDatabasesAreIndependent(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		var subscriptions []*store.Subscription
		for i, o := range []Options{{}, {Prefix: "other:"}, {DB: 1}, {Prefix: "parley:k"}} {
			o.Addrs = []string{server.addr}
			s := connect(t, o)
			must.Do(t, must.Err(s.Put(ctx, "k", fmt.Append(nil, i), store.PutOptions{TTL: time.Hour, IfAbsent: true})))
			subscription, err := s.Subscribe(ctx, "t", 10)
			must.Do(t, err)
			defer subscription.Close()
			subscriptions = append(subscriptions, subscription)
			must.Do(t, s.Publish(ctx, "t", fmt.Append(nil, i)))
		}
		for i, subscription := range subscriptions {
			m := receive(t, subscription)
			must.CheckThat(t, string(m.Data) == fmt.Sprint(i), "store %d received %q", i, m.Data)
			must.CheckThat(t, len(subscription.C) == 0, "store %d received messages of another store", i)
		}
	})
}

// certificate writes a certificate for 127.0.0.1 and its key to files, and returns a pool that trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Do(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Do(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must.Do(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	parsed, err := x509.ParseCertificate(der)
	must.Do(t, err)
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
		must.Do(t, err)
		defer subscription.Close()
		must.Do(t, must.Err(s.Put(ctx, "k", []byte("value"), hour)))
		must.Do(t, s.Publish(ctx, "t", []byte("message")))
		m := receive(t, subscription)
		must.CheckThat(t, string(m.Data) == "message", "received %+v", m)

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

// After a command has failed, the Redis client connects again and subscribes again. What it
// receives then must not be used: messages were lost, and subscribers do not know yet.
func TestNothingIsReceivedAfterACommandHasFailed(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		c := &connection{pubsub: s.client.Subscribe(ctx)}
		defer c.pubsub.Close()
		must.Do(t, c.send(func(p *redis.PubSub) error { return p.Subscribe(ctx, "t") }))
		received, err := c.receive(ctx, patience)
		must.That(t, err == nil, "received %v, %v; want the answer to SUBSCRIBE", received, err)
		p.cut(false)
		var failure error
		wait(t, "a command fails", func() error {
			failure = c.send(func(p *redis.PubSub) error { return p.Ping(ctx) })
			if failure == nil {
				return errors.New("no command has failed")
			}
			return nil
		})
		if received, err := c.receive(ctx, patience); !errors.Is(err, failure) {
			t.Errorf("received %v, %v; want the error of the command: %v", received, err, failure)
		}
	})
}

// With an append-only file that is written before each answer, everything survives a crash,
// and versions from before it are never assigned again.
func TestRestartFromAppendOnlyFile(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program, "--appendonly", "yes", "--appendfsync", "always")
		s := connect(t, at(server.addr))
		subscription, err := s.Subscribe(ctx, "t", 10)
		must.Do(t, err)
		defer subscription.Close()

		versions := make(map[string]uint64)
		for i := range 100 {
			key := fmt.Sprint("k", i)
			if versions[key], err = s.Put(ctx, key, []byte(key), hour); err != nil {
				t.Fatal(err)
			}
		}
		deleted := versions["k0"]
		must.Do(t, s.Delete(ctx, "k0"))
		must.Do(t, s.Add(ctx, "set", "member", time.Hour, 10))
		for seq := uint64(1); seq <= 15; seq++ {
			must.Do(t, s.Append(ctx, stream, seq, fmt.Append(nil, seq), entries))
		}

		server.kill()
		server.start()
		wait(t, "Redis has loaded its data", func() error { _, err := s.Get(ctx, "k1"); return err })
		wantLost(t, s, subscription, "t")

		for i := 1; i < 100; i++ {
			key := fmt.Sprint("k", i)
			item, err := s.Get(ctx, key)
			must.That(t, err == nil && string(item.Value) == key && item.Version == versions[key],
				"Get(%s) = %q version %d, %v; want version %d", key, item.Value, item.Version, err, versions[key])
			must.Do(t, must.Err(s.Put(ctx, key, nil, store.PutOptions{TTL: time.Hour, IfVersion: versions[key]})),
				"compare-and-swap after the restart")
		}
		if _, err := s.Get(ctx, "k0"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get of a deleted item: %v", err)
		}
		again, err := s.Put(ctx, "k0", nil, store.PutOptions{TTL: time.Hour, IfAbsent: true})
		must.CheckThat(t, err == nil && again != deleted,
			"Put = %d, %v; version %d was used before the restart", again, err, deleted)
		if got, err := s.List(ctx, "set", "", 10); err != nil || !slices.Equal(got, []string{"member"}) {
			t.Errorf("List = %q, %v", got, err)
		}
		if got, err := s.ReadAfter(ctx, stream, 5); err != nil || len(got) != 10 || string(got[9]) != "15" {
			t.Errorf("ReadAfter = %q, %v", got, err)
		}
		must.Check(t, s.Append(ctx, stream, 16, nil, entries), "Append after the restart")
		server.everyKeyExpires()
	})
}

// Without persistence, a restart deletes everything. No compare-and-swap with an old version succeeds.
func TestRestartWithoutPersistence(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		s := connect(t, at(server.addr))
		subscription, err := s.Subscribe(ctx, "t", 10)
		must.Do(t, err)
		defer subscription.Close()
		old, err := s.Put(ctx, "k", []byte("value"), hour)
		must.Do(t, err)
		server.kill()
		server.start()
		wait(t, "Redis answers", func() error {
			if _, err := s.Get(ctx, "k"); !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("Get: %w", err)
			}
			return nil
		})
		wantLost(t, s, subscription, "t")
		if _, err := s.Put(ctx, "k", nil, store.PutOptions{TTL: time.Hour, IfVersion: old}); !errors.Is(err,
			store.ErrConflict) {
			t.Errorf("compare-and-swap: %v, want ErrConflict", err)
		}
		for range 100 {
			version, err := s.Put(ctx, "k", nil, hour)
			must.That(t, err == nil && version != old,
				"Put = %d, %v; version %d was used before the restart", version, err, old)
		}
	})
}
