package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// This file contains the servers of the tests in audience_test.go. Each is a server.Server that can also send,
// on each connection and at any time, what a server may send outside of a call.

// provoked contains the arguments of the tool of an audienceServer: what the server sends, on whose behalf, and how
// many calls must be in flight before it does.
type provoked struct {
	Event, Owner string
	Row          string // row of the table
	Together     int
}

func (p provoked) String() string { return p.Event + " of " + p.Owner }

// audienceServer is a server that sends what its callers provoke.
type audienceServer struct {
	server.Server
	revision  mcp.Revision
	owners    []string
	stateless bool // HTTP without sessions, although the revision has them

	mu       sync.Mutex
	links    map[string]*upLink       // by the id of the session or connection
	session  string                   // the only session, if stateless
	inFlight map[string]int           // number of calls that have begun
	waiting  map[string]chan struct{} // closed when all calls have begun
	errors   map[string]string        // errors of questions, by what was asked
	noticed  func()                   // called for each message of the gateway, after its link has recorded it
}

func newAudienceServer(r mcp.Revision, owners ...string) *audienceServer {
	u := &audienceServer{revision: r, owners: owners, links: make(map[string]*upLink), inFlight: make(map[string]int),
		waiting: make(map[string]chan struct{}), errors: make(map[string]string), noticed: func() {}}
	u.Name, u.Logger, u.Limits = "up", quiet, server.Limits{CallsPerSecond: -1}
	server.AddTool(u, mcp.Tool{Name: "provoke"}, u.provoke)
	for _, owner := range owners {
		server.AddStatic(u, mcp.Resource{URI: resourceOf(owner), Name: owner}, owner)
	}
	return u
}

// resourceOf returns the URI of the resource that only one client watches.
func resourceOf(owner string) string { return "lib://" + owner }

// provoke sends what the caller wants. It returns the name of the client that answered.
func (u *audienceServer) provoke(ctx context.Context, in provoked) (string, error) {
	if err := u.await(ctx, in); err != nil {
		return "", err
	}
	if who := server.PrincipalOf(ctx).Subject(); u.Auth != nil && who != userOf(in.Owner) {
		return "", fmt.Errorf("the call of %s has the credentials of %q", in.Owner, who)
	}
	answer, err := u.send(ctx, in)
	if err != nil && !errors.Is(err, server.ErrInputRequired) {
		u.mu.Lock()
		u.errors[in.String()] = err.Error()
		u.mu.Unlock()
	}
	return answer, err
}

func (u *audienceServer) send(ctx context.Context, in provoked) (string, error) {
	switch in.Event {
	case "form":
		answer, err := server.Elicit[struct{ Text string }](ctx, in.String())
		return answer.Text, err
	case "sampling":
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1,
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(in.String())}}}})
		if err != nil {
			return "", err
		}
		return text(answer.Content), nil
	case "roots":
		roots, err := server.Roots(ctx)
		if err != nil {
			return "", err
		}
		return strings.TrimPrefix(roots[0].URI, "file:///"), nil
	case "progress":
		return in.Owner, server.Progress(ctx, 1, float64(slices.Index(u.owners, in.Owner)), in.String())
	case "log":
		server.Logger(ctx).Error(in.String())
	}
	return in.Owner, nil
}

// await waits until enough calls for an event are in flight.
func (u *audienceServer) await(ctx context.Context, in provoked) error {
	key := in.Event + " " + in.Row
	u.mu.Lock()
	if u.waiting[key] == nil {
		u.waiting[key] = make(chan struct{})
	}
	waiting := u.waiting[key]
	if u.inFlight[key]++; u.inFlight[key] == in.Together {
		close(waiting)
	}
	u.mu.Unlock()
	select {
	case <-waiting:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(patienceOfAudience):
		return fmt.Errorf("%d calls of %s are in flight", in.Together, key)
	}
}

// errorOf returns the error that the server received for a question.
func (u *audienceServer) errorOf(what provoked) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.errors[what.String()]
}

// linkOf returns the connection over which a client last called the server, or nil if no such connection can carry
// messages of the server.
func (u *audienceServer) linkOf(owner string) *upLink {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range u.links {
		if slices.Contains(l.owners(), owner) {
			return l
		}
	}
	return nil
}

// all returns the connections.
func (u *audienceServer) all() (all []*upLink) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range u.links {
		all = append(all, l)
	}
	return all
}

// link returns the connection or session with an id.
func (u *audienceServer) link(id string) *upLink {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.links[id] == nil {
		u.links[id] = &upLink{callers: make(map[string]bool), answers: make(map[string]chan string),
			opened: make(chan struct{})}
	}
	return u.links[id]
}

// upLink is a connection of the gateway with a server, as the server sees it.
type upLink struct {
	mu      sync.Mutex
	callers map[string]bool        // owners of the calls
	moved   int                    // number of notifications that the roots have changed
	answers map[string]chan string // responses to what the server has sent
	opened  chan struct{}          // closed when send is set
	send    func(message string) error
}

var (
	ownerOfCall  = regexp.MustCompile(`"Owner":"([^"]+)"`)
	answerToSent = regexp.MustCompile(`"id":"(sent-[0-9]+)"`)
)

// saw records a message of the gateway. It reports whether it is the response to a request that was sent with
// ask.
func (l *upLink) saw(message []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := ownerOfCall.FindSubmatch(message); m != nil {
		l.callers[string(m[1])] = true
	}
	if bytes.Contains(message, []byte(mcp.NotificationRootsListChanged)) {
		l.moved++
	}
	if m := answerToSent.FindSubmatch(message); m != nil && !bytes.Contains(message, []byte(`"method"`)) {
		l.answers[string(m[1])] <- string(message)
		return true
	}
	return false
}

// owners returns the clients whose calls have arrived.
func (l *upLink) owners() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.callers))
}

func (l *upLink) timesMoved() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// open makes the link send over a stream.
func (l *upLink) open(send func(message string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.send == nil {
		close(l.opened)
	}
	l.send = send
}

// canSend reports whether the connection carries messages outside of calls within a time.
func (l *upLink) canSend(within time.Duration) bool {
	for {
		select {
		case <-l.opened:
			return true
		default:
		}
		if within <= 0 {
			return false
		}
		select {
		case <-l.opened:
		case <-time.After(within):
			within = 0
		}
	}
}

// notify sends a notification outside of a call.
func (l *upLink) notify(t *testing.T, method, params string) {
	t.Helper()
	l.mu.Lock()
	send := l.send
	l.mu.Unlock()
	must.Check(t, send(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)))
}

// ask sends a request outside of a call, and returns the response.
func (l *upLink) ask(t *testing.T, method, params string) string {
	t.Helper()
	l.mu.Lock()
	send, answer := l.send, make(chan string, 1)
	id := fmt.Sprint("sent-", len(l.answers))
	l.answers[id] = answer
	l.mu.Unlock()
	must.Check(t, send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params)))
	select {
	case response := <-answer:
		return response
	case <-time.After(patienceOfAudience):
		t.Errorf("%s has no response", method)
		return ""
	}
}

// serveHTTP serves over HTTP until the test ends.
func (u *audienceServer) serveHTTP(t *testing.T) client.Target {
	return client.URL(wiretest.Serve(t, u))
}

// usersByToken requires a token, which is the name of a user.
func usersByToken() *auth.ProtectedResource {
	return &auth.ProtectedResource{
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			who, err := principal.New("https://issuer.example", token, "")
			return &auth.Info{Principal: who, Expiry: time.Now().Add(time.Hour)}, err
		}),
	}
}

// as returns the target for a user of a server that requires a token.
func as(user, url string) client.Target {
	return &client.HTTPTarget{URL: url, Header: http.Header{"Authorization": {"Bearer " + user}}}
}

// bearerToken is a client.Authorizer with the token of a user.
type bearerToken string

func (b bearerToken) Authorize(r *http.Request, _ string) error {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return nil
}

func (bearerToken) Reauthorize(*http.Request, string, *http.Response) (bool, error) {
	return false, nil
}

const sessionHeader = "Mcp-Session-Id"

func (u *audienceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if u.stateless {
		u.mu.Lock()
		r.Header.Set(sessionHeader, u.session)
		u.mu.Unlock()
		if bytes.Contains(body, []byte(`"initialize"`)) {
			r.Header.Del(sessionHeader)
		}
	}
	id := r.Header.Get(sessionHeader) + r.URL.Query().Get("sessionId") // only one of the two is set
	if u.revision.Modern() {
		id = r.Header.Get("Authorization") + r.Header.Get("X-Key")
	}
	if id != "" || u.revision.Modern() {
		response := u.link(id).saw(body)
		if u.noticed(); response {
			w.WriteHeader(http.StatusAccepted)
			return
		}
	}
	if r.Method == http.MethodGet {
		w = &openStream{ResponseWriter: w, server: u, id: id}
	} else if u.stateless {
		w = &withoutSession{w, u}
	}
	u.Server.ServeHTTP(w, r)
}

// withoutSession is a response without the id of the session.
type withoutSession struct {
	http.ResponseWriter
	server *audienceServer
}

// Unwrap is for http.ResponseController.
func (w *withoutSession) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *withoutSession) WriteHeader(status int) {
	if id := w.Header().Get(sessionHeader); id != "" {
		w.server.mu.Lock()
		w.server.session = id
		w.server.mu.Unlock()
		w.Header().Del(sessionHeader)
	}
	w.ResponseWriter.WriteHeader(status)
}

// openStream is an event stream for messages outside of calls.
type openStream struct {
	http.ResponseWriter
	server *audienceServer
	id     string // ID of the session; "" before the first event of HTTP+SSE

	mu sync.Mutex
}

var endpointOfPair = regexp.MustCompile(`sessionId=([^\s&]+)`)

func (s *openStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.ResponseWriter.Write(p)
	if m := endpointOfPair.FindSubmatch(p); s.id == "" && m != nil {
		s.id = string(m[1])
		s.server.link(s.id).open(s.send)
	}
	return n, err
}

// FlushError is for http.ResponseController.
func (s *openStream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != "" {
		s.server.link(s.id).open(s.send)
	}
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (s *openStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *openStream) send(message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := fmt.Fprintf(s.ResponseWriter, "event: message\ndata: %s\n\n", message); err != nil {
		return err
	}
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// relayAddress is the environment variable that makes the test program a relay between its standard input and output
// and a server at an address.
const relayAddress = "PARLEY_RELAY_TO"

// relay is the main function of a relay.
func relay(address string) int {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

// serveCommand serves as a program until the test ends. Each process is a connection.
func (u *audienceServer) serveCommand(t *testing.T) client.Target {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				inner := transport.Stream(conn, transport.StreamOptions{})
				l := u.link(fmt.Sprint(n))
				l.open(func(message string) error { return inner.Write(ctx, []byte(message)) })
				_ = u.ServeConn(ctx, &tappedConn{inner, u, l})
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close()
		serving.Wait()
	})
	target := &client.CommandTarget{}
	target.Path, target.Env = os.Args[0], []string{relayAddress + "=" + listener.Addr().String()}
	return target
}

// tappedConn is a connection whose messages a link sees.
type tappedConn struct {
	transport.Conn
	server *audienceServer
	link   *upLink
}

func (c *tappedConn) Read(ctx context.Context) ([]byte, error) {
	for {
		message, err := c.Conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		response := c.link.saw(message)
		if c.server.noticed(); !response {
			return message, nil
		}
	}
}
