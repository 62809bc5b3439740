//go:build integration

package redisstore

import (
	"net/http"
	"runtime"
	"strconv"
	"testing"

	"github.com/parley-mcp/parley/internal/wiretest"
	mcpserver "github.com/parley-mcp/parley/server"
)

// 2,000 idle sessions in Redis, each of which this replica has served, need at most 2 KiB each in the process, no
// goroutine and no connection, and at most 1 KiB each in Redis.
func TestIdleSessionsNeedLittleMemory(t *testing.T) {
	const n, maxInProcess, maxInRedis = 2_000, 2 << 10, 1 << 10
	redis := start(t, "redis-server")
	shared := connect(t, at(redis.addr))
	s := &mcpserver.Server{KV: shared, Log: shared, Bus: shared, Keys: [][]byte{make([]byte, 32)}, Limits: mcpserver.Limits{SessionsPerAddress: 2 * n, Sessions: 2 * n}}
	defer s.Shutdown(t.Context())
	begin := func() {
		session := post(t, s, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"a-client-of-the-usual-kind","title":"A client of the usual kind","version":"1.23.4"},"capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}}}`)
		post(t, s, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		post(t, s, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	}
	for range 100 { // opens the connections
		begin()
	}
	goroutines, process, stored := runtime.NumGoroutine(), heap(), usedMemory(t, redis)
	for range n {
		begin()
	}
	inProcess, inRedis := (heap()-process)/n, (usedMemory(t, redis)-stored)/n
	t.Logf("%d bytes in the process and %d bytes in Redis for each session", inProcess, inRedis)
	if inProcess > maxInProcess || inRedis > maxInRedis {
		t.Errorf("a session needs %d bytes in the process, the limit is %d, and %d bytes in Redis, the limit is %d", inProcess, maxInProcess, inRedis, maxInRedis)
	}
	// The Redis client may open a connection again.
	if now := runtime.NumGoroutine(); now > goroutines+DefaultConns {
		t.Errorf("%d goroutines with the sessions, %d without", now, goroutines)
	}
	clients, err := strconv.Atoi(field(redis.command("info", "clients").(string), "connected_clients"))
	if err != nil || clients > DefaultConns+2 { // one for subscriptions, and that of the test
		t.Errorf("Redis has %d connections: %v", clients, err)
	}
	runtime.KeepAlive(s)
}

// post sends a message to s without a network, and returns the id of the session.
func post(t *testing.T, s *mcpserver.Server, session, body string) string {
	t.Helper()
	w := wiretest.Record(s, http.MethodPost, "http://127.0.0.1/", body, "Mcp-Session-Id", session)
	if w.Code/100 != 2 {
		t.Fatalf("status %d of %s: %s", w.Code, body, w.Body)
	}
	return w.Header().Get("Mcp-Session-Id")
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// usedMemory returns the bytes that Redis has allocated.
func usedMemory(t *testing.T, redis *server) int64 {
	t.Helper()
	n, err := strconv.ParseInt(field(redis.command("info", "memory").(string), "used_memory"), 10, 64)
	if err != nil {
		t.Fatalf("used_memory: %v", err)
	}
	return n
}
