//go:build integration && unix

package faults

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/store/redisstore"
)

// replicas is the number of replicas in a fleet.
const replicas = 3

// fleet is three replicas with one Redis server, behind a proxy.
type fleet struct {
	t        testing.TB
	ledger   *ledger.Ledger
	journal  string
	redis    *redisServer
	replicas [replicas]*replicaProcess
	proxy    *proxy
	users    atomic.Int64
	began    time.Time
	forgets  bool // Redis loses its data, and the functions of server.Once run again
}

// newFleet starts a fleet. When the test ends, the ledger is checked; see fleet.finish.
func newFleet(t *testing.T, redisArguments ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, ledger: &ledger.Ledger{Typed: faulttest.Typed, Patience: faulttest.Patience}, journal: filepath.Join(t.TempDir(), "journal"), began: time.Now()}
	f.redis = startRedis(t, redisArguments...)
	f.proxy = newProxy(t)
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	for i := range f.replicas {
		f.replicas[i] = newReplica(t, settings{Name: "replica " + string(rune('1'+i)), Redis: f.redis.addr, Journal: f.journal, Key: key})
		t.Cleanup(f.replicas[i].check)
		f.start(i)
		t.Cleanup(f.replicas[i].kill)
	}
	return f
}

// start starts a replica, which then gets requests.
func (f *fleet) start(replica int) {
	f.t.Helper()
	r := f.replicas[replica]
	r.start()
	f.proxy.set(replica, r.addr)
}

// kill ends a replica without warning. The proxy goes on to use its address.
func (f *fleet) kill(replica int) {
	f.ledger.Fault()
	f.replicas[replica].kill()
}

// finish ends the replicas and checks the ledger.
func (f *fleet) finish(t *testing.T) {
	t.Helper()
	for i, r := range f.replicas {
		f.proxy.set(i, "")
		if r.command != nil {
			r.kill()
		}
	}
	if err := f.ledger.ReadJournal(f.journal); err != nil {
		t.Fatal(err)
	}
	faulttest.Report(t, f.ledger, f.began, *totalsFile)
}

// open opens a gate; see replica.job.
func (f *fleet) open(gate string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), faulttest.Patience)
	defer cancel()
	db, err := redisstore.Open(ctx, redisstore.Options{Addrs: []string{f.redis.addr}})
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Put(ctx, gatePrefix+gate, []byte("open"), store.PutOptions{TTL: testTTL}); err != nil {
		f.t.Fatal(err)
	}
}
