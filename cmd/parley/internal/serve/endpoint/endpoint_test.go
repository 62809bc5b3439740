package endpoint

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

func TestLimitFlagsSetTheRatesOfTheServer(t *testing.T) {
	for args, want := range map[[2]string]server.Limits{
		{}: {CallsPerSecond: defaultLimitCalls,
			ListsPerSecond: defaultLimitLists},
		{"--limit-calls=5", "--limit-lists=7"}: {CallsPerSecond: 5, ListsPerSecond: 7},
		{"--limit-calls=0", "--limit-lists=0"}: {CallsPerSecond: -1},
	} {
		cmd := new(cobra.Command)
		var flags Flags
		flags.Add(cmd)
		must.Do(t, cmd.ParseFlags(args[:]))
		s := &server.Server{}
		flags.Limit(s)
		must.CheckEqual(t, s.Limits, want, args)
	}
}

// A proxy on this machine forwards requests of others, so what it forwards is not from the user of this machine.
func TestForwardedRequestsAreNotOfTheLocalUser(t *testing.T) {
	for header, local := range map[string]bool{
		"": true, "X-Other": true, "Forwarded": false, "X-Forwarded-For": false, "X-Real-IP": false, "Via": false,
		"via": false,
	} {
		r := httptest.NewRequest(http.MethodPost, Path, nil)
		if header != "" {
			r.Header.Set(header, "")
		}
		var user bool
		ofLocalUser(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			user = IsLocalUser(r.Context())
		})).ServeHTTP(nil, r)
		must.CheckEqual(t, user, local, header)
	}
}

func TestTraceDoesNotDelayEvents(t *testing.T) {
	var traced bytes.Buffer
	release := make(chan struct{})
	s := httptest.NewServer((&observer{tracer: recording.NewTracer(&traced)}).handlers("")(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"n\":\ndata: 1}\n\ndata: {\"n\"")
		must.Check(t, http.NewResponseController(w).Flush())
		<-release
		_, _ = io.WriteString(w, ": 2}\n\n: a comment\n\n")
	})))
	defer s.Close()
	resp, err := http.Post(s.URL, "application/json", strings.NewReader("{\n \"method\": \"\\u001b[31m\"\n}"))
	must.Do(t, err)
	defer resp.Body.Close()
	arrived := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(resp.Body, make([]byte, 10))
		arrived <- err
	}()
	must.Do(t, must.Receive(t, arrived, "the first event"))
	close(release)
	must.Get(io.ReadAll(resp.Body))(t)
	s.Close() // waits for the handler, which writes the trace
	var lines []string
	for line := range strings.Lines(traced.String()) {
		arrow, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, message, _ := strings.Cut(rest, " ")
		lines = append(lines, arrow+" "+message)
	}
	want := []string{`← {"method":"\u001b[31m"}`, `→ {"n":1}`, `→ {"n":2}`}
	must.CheckEqual(t, strings.Join(lines, "\n"), strings.Join(want, "\n"), traced.String())
}

func TestStatusTellsWhichServersHaveOneClientPerCaller(t *testing.T) {
	p := NewStatus(io.Discard)
	for _, want := range []bool{false, true} {
		status := host.ServerStatus{State: host.Ready}
		status.Sharing = host.SharingEveryone
		if want {
			status.Sharing = host.SharingSession
		}
		text := p.summary(status)
		must.CheckEqual(t, strings.Contains(text, "one client per caller"), want, text)
	}
}

// applyStore applies flags of the command line to a new server.
func applyStore(t *testing.T, args ...string) (*server.Server, error) {
	t.Helper()
	var flags storeFlags
	cmd := new(cobra.Command)
	cmd.SetContext(t.Context())
	flags.add(cmd)
	must.Do(t, cmd.ParseFlags(args))
	s := new(server.Server)
	closeStore, err := flags.Apply(cmd, s)
	if err == nil {
		closeStore()
	}
	return s, err
}

// key returns a key of n bytes in base64.
func key(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }

func TestKeyFileHasOneKeyPerLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct {
		text string
		keys int
		want string // a part of the error
	}{
		{key(32), 1, ""},
		{key(32) + "\n\n" + key(64) + "\r\n", 2, ""},
		{"", 0, "contains no keys"},
		{"\n\n", 0, "contains no keys"},
		{key(32) + "\n" + key(31) + "\n", 0, "line 2: a key must have at least 32 bytes, got 31"},
		{"secret!\n", 0, "line 1 must be a key in base64"},
	} {
		must.Do(t, os.WriteFile(file, []byte(c.text), 0o600))
		s, err := applyStore(t, "--key-file", file)
		must.CheckThat(t, len(s.Keys) == c.keys && s.Store == nil && (err == nil) == (c.want == ""),
			"%q: %d keys, store %v, error %v", c.text, len(s.Keys), s.Store, err)
		if err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret!")) {
			t.Errorf("%q: error %v, want one with %q and without the key", c.text, err, c.want)
		}
	}
}

func TestStoreFlagsExplainErrors(t *testing.T) {
	t.Setenv("STORE_PASSWORD", "s3cr3t")
	file := filepath.Join(t.TempDir(), "keys")
	must.Do(t, os.WriteFile(file, []byte(key(32)), 0o600))
	for _, c := range []struct {
		url, keyFile string
		code         int
		want         string
	}{
		{"redis://127.0.0.1:1", "", failure.ExitOther, "--store requires keys"},
		{"redis://127.0.0.1:1", file + "2", failure.ExitOther, "--key-file: open "},
		{"redis://:s3cr3t@127.0.0.1:1", file, failure.ExitOther, "--store: other users can see the password"},
		{"redis://:${NO_SUCH_PASSWORD}@127.0.0.1:1", file, failure.ExitOther,
			"--store: environment variable NO_SUCH_PASSWORD is not set"},
		{"", file, failure.ExitOther, "--store: scheme of the URL must be redis or rediss"},
		{"http://127.0.0.1:1", file, failure.ExitOther, "scheme of the URL must be redis or rediss"},
		{"redis://:${STORE_PASSWORD}@127.0.0.1:1", file, failure.ExitUnreachable,
			"cannot connect to the store: dial tcp 127.0.0.1:1: "},
		{"rediss://:${STORE_PASSWORD}@127.0.0.1:1?cluster=true", file, failure.ExitUnreachable,
			"cannot connect to the store"},
		{"redis://127.0.0.1:1?master=main&addr=127.0.0.1:2", file, failure.ExitUnreachable,
			"cannot connect to the store"},
	} {
		args := []string{"--store", c.url}
		if c.keyFile != "" {
			args = append(args, "--key-file", c.keyFile)
		}
		s, err := applyStore(t, args...)
		if err == nil || s.Store != nil {
			t.Errorf("%s: error %v, store %v", c.url, err, s.Store)
			continue
		}
		if text := failure.Explain(err); !strings.Contains(text, c.want) || strings.Contains(text, "s3cr3t") {
			t.Errorf("%s: %q, want a text with %q and without the password", c.url, text, c.want)
		}
		must.CheckEqual(t, failure.Code(context.Background(), err), c.code, c.url, "exit code", err)
	}
}

func TestProgramsHavePrefixesOfTheirOwn(t *testing.T) {
	for name, want := range map[string]string{"parley-files": "parley:parley-files:", "a{b}": "parley:a_b_:"} {
		must.CheckEqual(t, prefixOf(name), want, name)
	}
}

// checkedStore is a store for readiness checks.
type checkedStore struct {
	store.Store
	asked          atomic.Int32
	get            func(ctx context.Context) error
	put, subscribe error
}

func (s *checkedStore) Get(ctx context.Context, _ string) (store.Item, error) {
	s.asked.Add(1)
	return store.Item{}, s.get(ctx)
}

func (s *checkedStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if s.put != nil {
		return 0, s.put
	}
	return s.Store.Put(ctx, key, value, opt)
}

func (s *checkedStore) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	if s.subscribe != nil {
		return nil, s.subscribe
	}
	return s.Store.Subscribe(ctx, topic, queue)
}

// checkOf returns the readiness of a program with this store.
func checkOf(s *checkedStore) *readiness {
	s.Store = store.NewMemory()
	return &readiness{store: s}
}

func readyz(r *readiness) (status int, body string) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestReadinessDependsOnTheStore(t *testing.T) {
	const unreachable = `{"ready":false,"store":"unreachable"}`
	for name, test := range map[string]struct {
		get    func(ctx context.Context) error
		status int
		body   string
	}{
		"empty": {func(context.Context) error { return store.ErrNotFound }, http.StatusOK,
			`{"ready":true,"store":"reachable"}`},
		"broken": {func(context.Context) error { return errors.New("password=hunter2") }, http.StatusServiceUnavailable,
			unreachable},
		"hangs": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, http.StatusServiceUnavailable,
			unreachable},
		"has a value": {func(context.Context) error {
			return nil
		}, http.StatusOK, `{"ready":true,"store":"reachable"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			status, body := readyz(checkOf(&checkedStore{get: test.get}))
			must.CheckThat(t, status == test.status && body == test.body, "%s: %d %s", name, status, body)
		})
	}
}

// A Redis server can be reached and yet not do what a replica needs.
func TestReadinessNamesWhatTheStoreDoesNotDo(t *testing.T) {
	found, secret := func(context.Context) error { return nil }, errors.New("READONLY password=hunter2")
	for body, kv := range map[string]*checkedStore{
		`{"ready":false,"store":"incomplete","missing":["write (SET)"]}`:           {get: found, put: secret},
		`{"ready":false,"store":"incomplete","missing":["subscribe (SUBSCRIBE)"]}`: {get: found, subscribe: secret},
	} {
		r := checkOf(kv)
		status, got := readyz(r)
		must.CheckThat(t, status == http.StatusServiceUnavailable && got == body, "%d %s, want %s", status, got, body)
		report := r.report(t.Context())
		must.CheckContains(t, report.Text(), "store: incomplete\nstore: cannot ", "parley ready prints")
	}
}

// Health checks do not load the store.
func TestTheStoreIsAskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &checkedStore{get: func(context.Context) error { return nil }}
		r := checkOf(kv)
		for range 100 {
			readyz(r)
		}
		must.CheckEqual(t, kv.asked.Load(), 1)
		time.Sleep(2 * time.Second)
		kv.get = func(context.Context) error { return errors.New("gone") }
		if status, _ := readyz(r); status != http.StatusServiceUnavailable || kv.asked.Load() != 2 {
			t.Errorf("status %d after the store has failed, asked %d times", status, kv.asked.Load())
		}
	})
}
