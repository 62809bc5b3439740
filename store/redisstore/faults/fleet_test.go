//go:build integration && unix

package faults

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/store/redisstore"
)

// replicas is the number of replicas in a fleet.
const replicas = 3

// fleet contains three replicas with one Redis server, behind a proxy.
type fleet struct {
	t        testing.TB
	ledger   *ledger.Ledger
	journal  string
	redis    *redisServer
	replicas [replicas]*replicaProcess
	proxy    *proxy
	users    atomic.Int64
	began    time.Time
	forgets  bool // Redis loses its data, so functions of server.Once run again
}

// newFleet starts a fleet. When the test ends, the ledger is checked; see fleet.finish.
func newFleet(t *testing.T, redisArguments ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, ledger: &ledger.Ledger{Typed: faulttest.Typed, Patience: faulttest.Patience},
		journal: filepath.Join(t.TempDir(), "journal"), began: time.Now()}
	f.redis = startRedis(t, redisArguments...)
	f.proxy = newProxy(t)
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	for i := range f.replicas {
		f.replicas[i] = newReplica(t, settings{Name: "replica " + string(rune('1'+i)), Redis: f.redis.addr,
			Journal: f.journal, Key: key})
		t.Cleanup(f.replicas[i].check)
		f.start(i)
		t.Cleanup(f.replicas[i].kill)
	}
	return f
}

// start starts a replica, which then receives requests.
func (f *fleet) start(replica int) {
	f.t.Helper()
	r := f.replicas[replica]
	r.start()
	f.proxy.set(replica, r.addr)
}

// kill ends a replica without warning. The proxy continues to use its address.
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

// settings contains the settings of a replica, as JSON in replicaVariable.
type settings struct {
	Name    string
	Redis   string // address of Redis
	Journal string // file of the journal
	Key     []byte
}

// The issuer and the audience of the tokens. A token is the name of a user.
const (
	issuer   = "https://login.example.com"
	resource = "https://mcp.example.com/mcp"
)

// runReplica serves until it receives SIGTERM, and then ends gracefully. It prints its address.
func runReplica(text string) error {
	var o settings
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := redisstore.Open(ctx, redisstore.Options{Addrs: []string{o.Redis}})
	if err != nil {
		return err
	}
	defer db.Close()
	journal, err := ledger.OpenJournal(o.Journal)
	if err != nil {
		return err
	}
	defer journal.Close()
	s := &server.Server{
		Name: "replica", Version: "1.0.0",
		Store: db, Keys: [][]byte{o.Key},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Auth:   &auth.ProtectedResource{URI: resource, Issuers: []string{issuer}, Verifier: auth.VerifierFunc(verify)},
	}
	r := &replica{settings: o, server: s, db: db, journal: journal}
	r.offer(ctx)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	defer context.AfterFunc(ctx, printIfSlow)()
	return s.Serve(ctx, listener)
}

// printIfSlow prints all goroutines shortly before Serve cancels the calls in flight, so that the output shows what
// they wait for. A replica that ends in time does not get that far.
func printIfSlow() {
	timer := time.NewTimer(4 * time.Second)
	defer timer.Stop()
	<-timer.C
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
}

// verify accepts the name of a user as a token.
func verify(_ context.Context, token string) (*auth.Info, error) {
	if !strings.HasPrefix(token, "user-") {
		return nil, &auth.InvalidTokenError{Reason: "unknown token"}
	}
	p, err := principal.New(issuer, token, "")
	return &auth.Info{Principal: p, Audience: []string{resource}}, err
}

// process is a child process of the test. It ends with the test.
type process struct {
	t       testing.TB
	name    string
	output  string // file with the standard error of all runs
	command *exec.Cmd
}

// start starts the process. Its standard error goes to the file.
func (p *process) start(command *exec.Cmd) {
	p.t.Helper()
	output, err := os.OpenFile(p.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer output.Close()
	command.Stderr = output
	endWithTest(command)
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.command = command
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// kill ends the process without warning.
func (p *process) kill() {
	if p.command != nil {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		p.command = nil
	}
}

// end waits until the process has ended on its own, without an error.
func (p *process) end() {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.command.Wait() }()
	faulttest.Wait(p.t, p.name+" ends", func() error {
		select {
		case err := <-done:
			if err != nil {
				p.t.Errorf("%s: %v", p.name, err)
			}
			return nil
		default:
			return errors.New("it runs")
		}
	})
	p.command = nil
}

// check fails the test if the process has printed a data race or a panic, and prints the end of the output of a test
// that has failed.
func (p *process) check() {
	output, err := os.ReadFile(p.output)
	if err != nil {
		p.t.Error(err)
		return
	}
	for _, bad := range []string{"DATA RACE", "panic"} {
		if at := bytes.Index(output, []byte(bad)); at >= 0 {
			p.t.Errorf("%s has printed %q:\n%.8000s", p.name, bad, output[max(0, at-200):])
		}
	}
	if p.t.Failed() {
		p.t.Logf("output of %s:\n%s", p.name, output[max(0, len(output)-64<<10):])
	}
}

// redisServer is a Redis server with an append-only file that is written before each answer.
type redisServer struct {
	process
	addr, dir string
	arguments []string
}

func startRedis(t testing.TB, arguments ...string) *redisServer {
	t.Helper()
	addr, err := freeaddr.New()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &redisServer{process{t: t, name: "redis-server", output: filepath.Join(dir, "output")}, addr, dir, arguments}
	r.start()
	t.Cleanup(func() {
		r.kill()
		r.check()
	})
	return r
}

// start starts the server and waits until it accepts connections.
func (r *redisServer) start() {
	r.t.Helper()
	program, err := filepath.Abs("../../../.tools/servers/redis-server")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		r.t.Fatalf("%v: run make tools", err)
	}
	_, port, _ := net.SplitHostPort(r.addr)
	command := exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save",
		""}, r.arguments...)...)
	command.Dir = r.dir
	r.process.start(command)
	c := redis.NewClient(&redis.Options{Addr: r.addr, Protocol: 2})
	defer c.Close()
	// A server that loads its data accepts connections, but no commands.
	faulttest.Wait(r.t, "Redis starts", func() error { return c.Ping(context.Background()).Err() })
}

// replicaProcess is a process with a replica.
type replicaProcess struct {
	process
	settings string
	addr     string
}

func newReplica(t testing.TB, o settings) *replicaProcess {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return &replicaProcess{process: process{t: t, name: o.Name, output: filepath.Join(t.TempDir(), "output")},
		settings: string(text)}
}

// start starts the replica and returns when it serves.
func (r *replicaProcess) start() {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), replicaVariable+"="+r.settings)
	stdout, err := command.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.process.start(command)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		r.t.Fatalf("%s does not start: %v", r.name, err)
	}
	r.addr = strings.TrimSpace(line)
}

// proxy sends every request to the next replica in turn. It knows nothing about sessions, except that a message with
// the sessionId of an HTTP+SSE pair goes to the replica with the event stream. It does not repeat a request that a
// replica has received. A request that cannot reach any replica is answered with status 502.
type proxy struct {
	url       string
	transport *http.Transport

	mu      sync.Mutex
	targets []string // addresses of replicas; "" if the replica receives no requests
	next    int
	pending map[string]int       // number of requests without a response, by target
	streams map[*stream]struct{} // bodies of the event streams in progress
	pairs   map[string]string    // targets of the event streams of pairs, by sessionId
}

func newProxy(t testing.TB) *proxy {
	p := &proxy{
		// A connection that a replica closes must not look like a lost request.
		transport: &http.Transport{DisableKeepAlives: true},
		pending:   make(map[string]int), streams: make(map[*stream]struct{}), pairs: make(map[string]string),
	}
	endpoint := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme = "http" },
		Transport:     p,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			if r.Header.Get("Content-Type") == "text/event-stream" {
				r.Body = p.track(r)
			}
			return nil
		},
	})
	p.url = endpoint.URL
	t.Cleanup(func() {
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	return p
}

// RoundTrip sends a request to the next replica that accepts a connection.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	// The whole body is read first. Otherwise the proxy's server closes the body when the response begins, and the
	// transport, which may not have read all of it, then breaks the connection to the replica.
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	err := errors.New("no replica is up")
	for _, target := range p.turn(r.URL.Query().Get("sessionId")) {
		out := r.Clone(r.Context())
		out.URL.Host = target
		out.Body = io.NopCloser(bytes.NewReader(body))
		var response *http.Response
		if !p.begin(target) {
			continue
		}
		response, err = p.transport.RoundTrip(out)
		p.done(target)
		var dial *net.OpError
		// otherwise nothing was sent, and another replica may serve the request
		if !errors.As(err, &dial) || dial.Op != "dial" {
			return response, err
		}
	}
	return nil, err
}

// set sets the address of a replica, or "" if it is down.
func (p *proxy) set(replica int, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.targets) <= replica {
		p.targets = append(p.targets, "")
	}
	p.targets[replica] = addr
}

// turn returns the replicas to try for a request, beginning with the replica of its pair, if it names one, or with
// the next replica.
func (p *proxy) turn(pair string) (up []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	if target := p.pairs[pair]; slices.Contains(p.targets, target) && target != "" {
		return []string{target}
	}
	for i := range p.targets {
		if target := p.targets[(p.next+i)%len(p.targets)]; target != "" {
			up = append(up, target)
		}
	}
	return up
}

// begin counts a request to a target. It reports false if the target no longer receives requests.
func (p *proxy) begin(target string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.targets, target) {
		return false
	}
	p.pending[target]++
	return true
}

// done undoes begin. It must be called when the target has begun to respond.
func (p *proxy) done(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[target]--
}

// drain takes a replica out of the turn, and waits until the replica has begun to respond to all requests
// that it received.
func (p *proxy) drain(t testing.TB, replica int) {
	t.Helper()
	p.mu.Lock()
	target := p.targets[replica]
	p.targets[replica] = ""
	p.mu.Unlock()
	faulttest.Wait(t, "the replica has no new requests", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := p.pending[target]; n > 0 {
			return fmt.Errorf("%d requests have no response", n)
		}
		return nil
	})
}

// cut ends all event streams of a user in the middle, and returns their number.
func (p *proxy) cut(user string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		if s.user == user {
			s.cut()
			n++
		}
	}
	return n
}

// userOf returns the user who sent a request.
func userOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// stream is the body of an event stream that can be cut.
type stream struct {
	io.ReadCloser
	proxy  *proxy
	user   string
	target string
	pair   string // the sessionId, once its first event has been read
	once   sync.Once
	ended  chan struct{}
}

func (p *proxy) track(r *http.Response) *stream {
	s := &stream{ReadCloser: r.Body, proxy: p, user: userOf(r.Request), target: r.Request.URL.Host,
		ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[s] = struct{}{}
	return s
}

var errCut = errors.New("the proxy has cut the connection")

func (s *stream) cut() { s.once.Do(func() { close(s.ended); s.ReadCloser.Close() }) }

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.learn(b[:n])
	select {
	case <-s.ended:
		return 0, errCut
	default:
		return n, err
	}
}

// learn makes the messages of a pair follow its event stream. A pair begins with the event that names its
// endpoint.
func (s *stream) learn(read []byte) {
	if _, id, found := bytes.Cut(read, []byte("?sessionId=")); found && s.pair == "" {
		line, _, _ := bytes.Cut(id, []byte("\n"))
		s.pair = string(line)
		s.proxy.mu.Lock()
		defer s.proxy.mu.Unlock()
		s.proxy.pairs[s.pair] = s.target
	}
}

func (s *stream) Close() error {
	s.proxy.mu.Lock()
	delete(s.proxy.streams, s)
	delete(s.proxy.pairs, s.pair)
	s.proxy.mu.Unlock()
	return s.ReadCloser.Close()
}
