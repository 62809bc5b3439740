package callers

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/principal"
)

// Clients keeps an [oauth.Client], with its tokens, for each caller of a program. The Client's Grant is usually an
// [*oauth.TokenExchange] or an [*oauth.Enterprise] without a Subject. Tokens of at most 4,096 callers are kept; the
// least recently used ones are dropped first. A Clients is safe for concurrent use and must not be copied.
type Clients struct {
	// New returns a new Client for a caller. These Clients must not share a Store.
	New func(caller principal.Principal) *oauth.Client

	clients clientSet
}

// ErrNoCaller means that a request needs the tokens of its caller, but the caller is not authenticated.
var ErrNoCaller = errors.New("the caller must be authenticated")

// Authorizer returns the client.Authorizer for the requests of one caller. The error is ErrNoCaller for principals that
// no token identifies.
func (c *Clients) Authorizer(caller principal.Principal) (*Authorizer, error) {
	if caller.Issuer() == "" {
		return nil, ErrNoCaller
	}
	return &Authorizer{caller: caller, clientOf: func(scopes string) *oauth.Client {
		return c.clients.get(caller.Key()+" "+scopes, func() *oauth.Client { return c.New(caller) })
	}}, nil
}

// Authorizer is the client.Authorizer for the requests of one caller. It rejects the requests of other callers. A
// caller with fewer scopes does not use tokens that were obtained with more. It is safe for concurrent use.
type Authorizer struct {
	caller   principal.Principal
	clientOf func(scopes string) *oauth.Client
	last     atomic.Pointer[oauth.Client] // client of the last request
}

// client returns the Client for a request. A request outside of a call uses the Client of the last call.
func (a *Authorizer) client(ctx context.Context) (*oauth.Client, error) {
	info := auth.FromContext(ctx)
	last := a.last.Load()
	switch {
	case info == nil && last != nil:
		return last, nil
	case info == nil:
		info = &auth.Info{}
	case info.Principal != a.caller:
		return nil, fmt.Errorf("%w: the request belongs to another caller than its connection", ErrNoCaller)
	}
	c := a.clientOf(strings.Join(slices.Sorted(slices.Values(info.Scopes)), " "))
	a.last.Store(c)
	return c, nil
}

// Authorize implements client.Authorizer.
func (a *Authorizer) Authorize(req *http.Request, server string) error {
	c, err := a.client(req.Context())
	if err != nil {
		return err
	}
	return c.Authorize(req, server)
}

// Reauthorize implements client.Authorizer.
func (a *Authorizer) Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error) {
	c, err := a.client(req.Context())
	if err != nil {
		return false, err
	}
	return c.Reauthorize(req, server, resp)
}

// Observe reads the DPoP nonce from the headers of a response of server.
func (a *Authorizer) Observe(server string, header http.Header) {
	if c := a.last.Load(); c != nil {
		c.Observe(server, header)
	}
}

// maxClients is the maximum number of clients of a clientSet.
const maxClients = 4096

// clientSet keeps the most recently used clients. It is safe for concurrent use.
type clientSet struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order list.List // elements are clientEntry, most recently used first
}

type clientEntry struct {
	key    string
	client *oauth.Client
}

// get returns the client with a key, or the one that create returns.
func (s *clientSet) get(key string, create func() *oauth.Client) *oauth.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[key]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(clientEntry).client
	}
	if s.byKey == nil {
		s.byKey = make(map[string]*list.Element)
	}
	if s.order.Len() >= maxClients {
		oldest := s.order.Remove(s.order.Back()).(clientEntry)
		delete(s.byKey, oldest.key)
	}
	c := create()
	s.byKey[key] = s.order.PushFront(clientEntry{key, c})
	return c
}
