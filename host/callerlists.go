package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

const (
	// maxCallerLists is the maximum number of lists on one connection, for tokens with different scopes.
	maxCallerLists = 4
	// callerListTimeout limits the requests for the lists of a caller.
	callerListTimeout = 10 * time.Second
)

// Status returns the status of the server, with the lists that the server sends to the caller of ctx. Without
// [ServerConfig.CallerAuth] this is simply the status of the server. Otherwise Status requests the lists with the
// caller's credentials, if they are unknown or older than maxAge. At most one such request is in flight on a
// connection, and callers with the same lists share the version of the status. A Host keeps the lists as long as the
// connection; see [ServerConfig.Sharing].
//
// If the lists cannot be updated, Status returns the previous ones, and Incomplete states the reason. If there are
// none, or the caller needs a login, it returns the error: one of the authorizer, such as a *call.URLRequiredError,
// ErrAnonymousCaller, or an error of [Client.CallTool].
func (c Client) Status(ctx context.Context, maxAge time.Duration) (ServerStatus, error) {
	s, err := c.host.enter(c.server)
	if err != nil {
		return ServerStatus{}, err
	}
	defer s.leave()
	if s.config.CallerAuth == nil {
		return s.snapshot(), nil
	}
	o, outdated, err := s.listsFor(ctx, maxAge)
	if err != nil {
		return ServerStatus{}, err
	}
	return s.callerStatus(o, outdated), nil
}

// callerLists contains what a server with CallerAuth has listed on one connection for one set of scopes: what a server
// lists can depend on the scopes of the token. It is guarded by pool.mu.
type callerLists struct {
	scopes  string
	used    time.Time
	offer   *callerOffer // nil until a request has succeeded
	at      time.Time    // when the lists were received; zero if they are outdated
	changes int          // how often they became outdated
}

// since returns the offer if it was received at a time or later.
func (l *callerLists) since(t time.Time) *callerOffer {
	if l.at.Before(t) {
		return nil
	}
	return l.offer
}

// callerOffer is what a server offers to some callers. It is immutable, except for catalog.
type callerOffer struct {
	digest   [sha256.Size]byte
	version  uint64
	revision mcp.Revision
	details  client.ServerDetails
	lists    lists
	offered  offered
	catalog  *catalog // catalog of the last search; guarded by Host.cataloging
}

func scopesOf(caller *auth.Info) string {
	return strings.Join(slices.Sorted(slices.Values(caller.Scopes)), " ")
}

// hasToken reports whether the token of the caller, and with it the scopes, is known. Subscriptions carry no
// token.
func hasToken(ctx context.Context) bool {
	return callerOf(ctx).Scopes != nil || auth.FromContext(ctx) != nil || call.From(ctx) != nil
}

// onBehalfOf returns a context for requests that the Host sends for a user on its own initiative. The authorizer may
// still hold a token that it obtained for an earlier request with these scopes.
func onBehalfOf(ctx context.Context, who principal.Principal, scopes string) context.Context {
	info := &auth.Info{Principal: who, Scopes: strings.Fields(scopes)}
	return WithCaller(auth.NewContext(ctx, info), &Caller{Auth: info})
}

// allLists returns the lists on all connections. mu must be held.
func (a *pool) allLists() iter.Seq2[principal.Principal, *callerLists] {
	return func(yield func(principal.Principal, *callerLists) bool) {
		for key, c := range a.byKey {
			for _, l := range c.lists {
				if !yield(key.user, l) {
					return
				}
			}
		}
	}
}

// known returns what is known about the lists of the caller of ctx. Without a token, these are the user's latest
// lists.
func (a *pool) known(ctx context.Context) (known callerLists) {
	if !hasToken(ctx) {
		return a.latest(callerOf(ctx).Principal)
	}
	key, err := a.of.audienceOf(a.of.callerFor(ctx), nil)
	if err != nil {
		return callerLists{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.byKey[key]; c != nil {
		if l := c.lists[scopesOf(callerOf(ctx))]; l != nil {
			l.used = time.Now()
			return *l
		}
	}
	return callerLists{}
}

// latest returns the lists that a user has used most recently.
func (a *pool) latest(who principal.Principal) (latest callerLists) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for user, l := range a.allLists() {
		if user == who && l.used.After(latest.used) {
			latest = *l
		}
	}
	return latest
}

// begin returns the lists of a connection that are about to be requested, and what is known about them.
func (a *pool) begin(on *connection, scopes string) (l *callerLists, known callerLists) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l = on.lists[scopes]; l == nil {
		if on.lists == nil || len(on.lists) >= maxCallerLists {
			on.lists = make(map[string]*callerLists)
		}
		l = &callerLists{scopes: scopes}
		on.lists[scopes] = l
	}
	l.used = time.Now()
	return l, *l
}

// keep keeps an offer that was received, and returns an equal one that other callers already use, if there is one.
// changes is the count before the request.
func (a *pool) keep(l *callerLists, now *callerOffer, changes int) *callerOffer {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.allLists() {
		if other.offer != nil && other.offer.digest == now.digest {
			now = other.offer
		}
	}
	if l.offer = now; l.changes == changes {
		l.at = time.Now()
	}
	a.listed.notify()
	return now
}

// forgetLists removes all lists, because they are to be selected, reviewed or named again.
func (a *pool) forgetLists() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.byKey {
		c.lists = nil
	}
}

// outdate makes listsFor request the lists of the matching users again, even if a request for them is in flight. It
// reports whether any of these users had lists.
func (a *pool) outdate(of func(principal.Principal) bool) (found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for user, l := range a.allLists() {
		if of(user) {
			l.at = time.Time{}
			l.changes++
			found = true
		}
	}
	return found
}

// listsFor returns what a server offers to the caller of ctx. outdated says why the lists could not be updated.
func (s *supervisor) listsFor(ctx context.Context, maxAge time.Duration) (o *callerOffer, outdated, err error) {
	who, begin := callerOf(ctx).Principal, time.Now()
	if who == principal.Anonymous {
		return nil, nil, ErrAnonymousCaller
	}
	known := s.pool.known(ctx)
	if o = known.since(begin.Add(-maxAge)); o != nil {
		return o, nil, nil
	}
	if !hasToken(ctx) {
		ctx = onBehalfOf(ctx, who, known.scopes)
	}
	ctx, cancel := context.WithTimeout(ctx, callerListTimeout)
	defer cancel()
	o, err = use(ctx, s, func(ctx context.Context, c *client.Client) (*callerOffer, error) {
		return s.requestLists(ctx, c, begin)
	})
	if err != nil && known.offer != nil && !needsLogin(err) {
		return known.offer, err, nil
	}
	return o, nil, err
}

// requestLists requests the lists of the caller of ctx, unless another request has received them since begin.
func (s *supervisor) requestLists(ctx context.Context, c *client.Client, begin time.Time) (*callerOffer, error) {
	on := pendingOf(ctx).on
	select {
	case on.listing <- struct{}{}:
		defer func() { <-on.listing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l, known := s.pool.begin(on, scopesOf(callerOf(ctx)))
	if o := known.since(begin); o != nil {
		return o, nil
	}
	listed, err := list(ctx, c, allKinds, client.WithRefresh())
	if err != nil {
		if needsLogin(err) {
			s.pool.mu.Lock()
			l.offer = nil
			s.pool.mu.Unlock()
		}
		return nil, err
	}
	o := &callerOffer{lists: listed, revision: c.Revision(), details: c.Server(), version: s.host.versions.Add(1)}
	s.mu.Lock()
	n := s.naming
	s.mu.Unlock()
	o.offered = s.offer(offered{}, &o.lists, &o.details, n, allKinds)
	encoded, err := json.Marshal([]any{
		o.revision, o.details, o.offered.tools, o.offered.prompts, o.offered.resources, o.offered.templates, n.prefix,
		fmt.Sprint(listed.incomplete, o.offered.same, o.offered.withheld),
	})
	if err != nil {
		return nil, err
	}
	o.digest = sha256.Sum256(encoded)
	s.recordWithheld(ctx, nil, o.offered.withheld)
	return s.pool.keep(l, o, known.changes), nil
}

// needsLogin reports whether a request has failed because the server does not know or accept its caller.
func needsLogin(err error) bool {
	return errors.As(err, new(*call.URLRequiredError)) || isUnauthorized(err)
}

// callerStatus returns the status of the server as callers with the offer see it.
func (s *supervisor) callerStatus(o *callerOffer, outdated error) ServerStatus {
	status := s.snapshot()
	status.State, status.Err = Ready, nil
	status.Version, status.Revision, status.Server = o.version, o.revision, o.details
	s.host.names.mu.RLock()
	s.show(&status, &o.lists, &o.offered)
	s.host.names.mu.RUnlock()
	if outdated != nil {
		status.Incomplete = errors.Join(status.Incomplete, &outdatedError{outdated})
	}
	return status
}

// offeredTo returns what the server offers to the caller of ctx, as far as known.
func (s *supervisor) offeredTo(ctx context.Context) offered {
	if s.config.CallerAuth != nil {
		if o := s.pool.known(ctx).offer; o != nil {
			return o.offered
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// learn requests the lists of the caller of ctx if they are unknown and decide which requests are allowed. If that
// fails, the server's own lists decide.
func (s *supervisor) learn(ctx context.Context) {
	if s.config.CallerAuth != nil {
		_, _, _ = s.listsFor(ctx, forever)
	}
}

// callerTool finds the tool with a merged name among the tools that servers with CallerAuth list for the caller
// of ctx, and returns the server and the name that the server uses. It is for names that no server claims for
// everyone.
func callerTool(ctx context.Context, possible []*supervisor, name string) (server, tool string, ok bool) {
	for _, s := range possible {
		if s.config.CallerAuth == nil {
			continue
		}
		if o, _, err := s.listsFor(ctx, forever); err == nil {
			if tool, ok := o.offered.toolClaims[name]; ok {
				return s.name, tool, true
			}
		}
	}
	return "", "", false
}
