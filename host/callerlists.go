package host

import (
	linked "container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

const (
	// maxCallerLists is the maximum number of callers of one server whose lists are kept.
	maxCallerLists = maxConnections
	// callerListTimeout limits the requests for the lists of a caller.
	callerListTimeout = 10 * time.Second
)

// Status returns the status of the server with the lists that it sends to the caller of ctx. For a server without
// [ServerConfig.CallerAuth] this is the status of the server. Otherwise, the lists are requested with the credentials
// of the caller if they are not known, or older than maxAge; one request for a caller is in flight at a time, and
// callers with the same lists share the version of the status. The lists of 256 callers of a server are kept.
//
// If the lists cannot be updated, the previous ones are returned, and Incomplete has the reason. Without
// previous ones, and if the caller needs a login, Status returns the error: that of the authorizer, such as a
// *call.URLRequiredError, ErrAnonymousCaller, or an error of [Client.CallTool].
func (c Client) Status(ctx context.Context, maxAge time.Duration) (ServerStatus, error) {
	s, err := c.host.enter(c.server)
	if err != nil {
		return ServerStatus{}, err
	}
	defer s.leave()
	if s.config.CallerAuth == nil {
		return s.snapshot(), nil
	}
	o, outdated, err := s.callerLists.get(ctx, s, maxAge)
	if err != nil {
		return ServerStatus{}, err
	}
	return s.callerStatus(o, outdated), nil
}

// callerLists are the lists that a server with CallerAuth sends to its callers. It is safe for concurrent use.
type callerLists struct {
	mu       sync.Mutex
	byCaller map[listKey]*linked.Element // of *callerEntry
	order    linked.List                 // the last used first
	offers   map[[sha256.Size]byte]*callerOffer
	received broadcast // that a caller has received lists
}

// listKey is a caller. What a server lists can depend on the scopes of the caller's token.
type listKey struct {
	owner  principal.Principal
	scopes string
}

func listKeyOf(caller *auth.Info) listKey {
	return listKey{caller.Principal, strings.Join(slices.Sorted(slices.Values(caller.Scopes)), " ")}
}

// callerEntry is the lists of one caller.
type callerEntry struct {
	key  listKey
	turn chan struct{} // capacity 1: has an element while the lists are requested

	offer   *callerOffer // nil before the first request has succeeded
	at      time.Time    // when the lists were received; zero if they are outdated
	changes int          // how often outdate was called
}

// callerOffer is what a server offers to some callers. It is immutable but for callers and catalog.
type callerOffer struct {
	digest   [sha256.Size]byte
	callers  int // number of entries; guarded by callerLists.mu
	version  uint64
	revision mcp.Revision
	details  client.ServerDetails
	lists    lists
	offered  offered
	catalog  *catalog // of the last search; guarded by Host.cataloging
}

// entry returns the entry of a caller. If there are too many, it removes the one that was not used for the longest
// time.
func (l *callerLists) entry(key listKey) *callerEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byCaller[key]; known != nil {
		l.order.MoveToFront(known)
		return known.Value.(*callerEntry)
	}
	if l.byCaller == nil {
		l.byCaller, l.offers = make(map[listKey]*linked.Element), make(map[[sha256.Size]byte]*callerOffer)
	}
	if l.order.Len() >= maxCallerLists {
		oldest := l.order.Remove(l.order.Back()).(*callerEntry)
		delete(l.byCaller, oldest.key)
		l.replace(oldest, nil)
	}
	e := &callerEntry{key: key, turn: make(chan struct{}, 1)}
	l.byCaller[key] = l.order.PushFront(e)
	return e
}

// keep makes an offer that of an entry, unless the entry was removed during the request. It returns the equal offer
// that other entries have, if there is one, and otherwise now. It requires that mu is held.
func (l *callerLists) keep(e *callerEntry, now *callerOffer) *callerOffer {
	same := l.offers[now.digest]
	if same != nil {
		now = same
	}
	if known := l.byCaller[e.key]; known != nil && known.Value == e {
		if same == nil {
			l.offers[now.digest] = now
		}
		l.replace(e, now)
	}
	return now
}

// replace replaces the offer of an entry. It requires that mu is held.
func (l *callerLists) replace(e *callerEntry, by *callerOffer) {
	if by != nil {
		by.callers++
	}
	if before := e.offer; before != nil {
		if before.callers--; before.callers == 0 && l.offers[before.digest] == before {
			delete(l.offers, before.digest)
		}
	}
	e.offer = by
}

// forget removes all lists, because they are to be selected, reviewed or named again.
func (l *callerLists) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order.Init()
	l.byCaller, l.offers = nil, nil
}

// outdate makes get request the lists of some callers again, also if a request for them is in flight. It reports
// whether one of these callers may have received lists.
func (l *callerLists) outdate(of func(principal.Principal) bool) (found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.byCaller {
		if e := known.Value.(*callerEntry); of(e.key.owner) {
			e.at = time.Time{}
			e.changes++
			found = true
		}
	}
	return found
}

// known returns the offer of a caller if it is not older than maxAge. A negative age is that of no offer.
func (l *callerLists) known(e *callerEntry, since time.Time) *callerOffer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.offer == nil || e.at.Before(since) {
		return nil
	}
	return e.offer
}

// of returns what is known about the lists of the caller of ctx, or nil.
func (l *callerLists) of(ctx context.Context) *callerOffer {
	key := l.keyOf(ctx)
	if key.owner == principal.Anonymous {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byCaller[key]; known != nil {
		return known.Value.(*callerEntry).offer
	}
	return nil
}

// get returns what a server offers to the caller of ctx. Outdated is the reason why the lists could not be updated.
func (l *callerLists) get(ctx context.Context, s *supervisor,
	maxAge time.Duration) (o *callerOffer, outdated, err error) {
	key := l.keyOf(ctx)
	if key.owner == principal.Anonymous {
		return nil, nil, ErrAnonymousCaller
	}
	begin := time.Now()
	e := l.entry(key)
	if o := l.known(e, begin.Add(-maxAge)); o != nil {
		return o, nil, nil
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if o := l.known(e, begin); o != nil { // another request has received them
		return o, nil, nil
	}
	l.mu.Lock()
	changes := e.changes
	l.mu.Unlock()
	now, err := s.listFor(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
	case e.offer != nil && !needsLogin(err):
		return e.offer, err, nil
	default:
		l.replace(e, nil)
		return nil, nil, err
	}
	now = l.keep(e, now)
	if e.changes == changes {
		e.at = time.Now()
	}
	l.received.notify()
	return now, nil, nil
}

// needsLogin reports whether a request has failed because the server does not know or accept its caller.
func needsLogin(err error) bool {
	return errors.As(err, new(*call.URLRequiredError)) || isUnauthorized(err)
}

// listFor requests the lists of the caller of ctx.
func (s *supervisor) listFor(ctx context.Context) (*callerOffer, error) {
	ctx, cancel := context.WithTimeout(ctx, callerListTimeout)
	defer cancel()
	o, err := use(ctx, s, func(ctx context.Context, c *client.Client) (*callerOffer, error) {
		listed, err := list(ctx, c, allKinds, client.WithRefresh())
		return &callerOffer{lists: listed, revision: c.Revision(), details: c.Server()}, err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	n := s.naming
	s.mu.Unlock()
	o.offered = s.offer(offered{}, &o.lists, &o.details, n, allKinds)
	o.version = s.host.versions.Add(1)
	encoded, err := json.Marshal([]any{
		o.revision, o.details, o.offered.tools, o.offered.prompts, o.offered.resources, o.offered.templates, n.prefix,
		errorText(o.incomplete()),
	})
	if err != nil {
		return nil, err
	}
	o.digest = sha256.Sum256(encoded)
	s.recordWithheld(ctx, nil, o.offered.withheld)
	return o, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// incomplete returns why lists are not complete.
func (o *callerOffer) incomplete() error {
	return errors.Join(
		o.lists.incomplete[client.ToolsChanged], o.offered.same[client.ToolsChanged],
		o.lists.incomplete[client.ResourcesChanged],
		o.lists.incomplete[client.PromptsChanged], o.offered.same[client.PromptsChanged], o.offered.withheld.error(),
	)
}

// callerStatus returns the status for callers with an offer. Names that other servers have, too, are left out.
func (s *supervisor) callerStatus(o *callerOffer, outdated error) ServerStatus {
	status := s.snapshot()
	status.State, status.Err = Ready, nil
	status.Version, status.Config = o.version, o.offered.naming.config
	status.Revision, status.Server = o.revision, o.details
	o.offered.about.set(&status.Server)
	c := &s.host.names
	c.mu.RLock()
	var sameTools, samePrompts []error
	status.Tools, sameTools = withoutClaimed(s, c.tools, "tool", o.offered.tools, nameOfTool)
	status.Prompts, samePrompts = withoutClaimed(s, c.prompts, "prompt", o.offered.prompts,
		func(p *Prompt) string { return p.Name })
	c.mu.RUnlock()
	status.Resources, status.Templates = o.offered.resources, o.offered.templates
	if outdated != nil {
		outdated = &outdatedError{outdated}
	}
	status.Incomplete = errors.Join(o.incomplete(), outdated, errors.Join(sameTools...), errors.Join(samePrompts...))
	return status
}

// withoutClaimed returns the entries whose names no other server than s claims.
func withoutClaimed[E any](s *supervisor, c claims, kind string, all []E,
	nameOf func(*E) string) (kept []E, conflicts []error) {
	kept = all
	for i := range all {
		name := nameOf(&all[i])
		taken := slices.ContainsFunc(c[name], func(other claim) bool { return other.supervisor != s })
		switch {
		case taken && len(conflicts) == 0:
			kept = slices.Clone(all[:i])
			fallthrough
		case taken:
			conflicts = append(conflicts, c.conflict(kind, name))
		case len(conflicts) > 0:
			kept = append(kept, all[i])
		}
	}
	return kept, conflicts
}

// offeredTo returns what the server offers to the caller of ctx, as far as it is known.
func (s *supervisor) offeredTo(ctx context.Context) offered {
	if s.config.CallerAuth != nil {
		if o := s.callerLists.of(ctx); o != nil {
			return o.offered
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// learn requests the lists of the caller of ctx if they decide about its requests and are not known. If it fails, the
// lists of the server decide.
func (s *supervisor) learn(ctx context.Context) {
	if s.config.CallerAuth != nil {
		_, _, _ = s.callerLists.get(ctx, s, forever)
	}
}

// callerTool returns the server's name of the tool with a merged name that the caller of ctx has, of servers with
// CallerAuth.
func callerTool(ctx context.Context, possible []*supervisor, name string) (server, tool string, ok bool) {
	for _, s := range possible {
		if s.config.CallerAuth == nil {
			continue
		}
		o, _, err := s.callerLists.get(ctx, s, forever)
		if err != nil {
			continue
		}
		status := s.callerStatus(o, nil)
		if i := slices.IndexFunc(status.Tools, func(t Tool) bool { return t.Name == name }); i >= 0 {
			return s.name, status.Tools[i].Definition.Name, true
		}
	}
	return "", "", false
}

var errNotConnected = errors.New("the server is not connected")

// callerWatches watch the resources of a server with CallerAuth for its callers, each with a client of that caller.
type callerWatches struct {
	mu      sync.Mutex
	by      map[principal.Principal]*callerWatch
	closed  bool
	running sync.WaitGroup // Add is called under mu before closed is set
}

// callerWatch is the watch of the resources to which one caller has subscribed.
type callerWatch struct {
	subscriptions subscriptions
	users         int // calls of Subscribe; guarded by callerWatches.mu
	cancel        context.CancelFunc
}

// watchFor returns the subscriptions of the caller of ctx, and a function that ends their use.
func (s *supervisor) watchFor(ctx context.Context) (*subscriptions, func(), error) {
	who := callerOf(ctx).Principal
	if who == principal.Anonymous {
		return nil, nil, ErrAnonymousCaller
	}
	a := &s.callerWatches
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, nil, errClosed
	}
	w := a.by[who]
	if w == nil {
		if a.by == nil {
			a.by = make(map[principal.Principal]*callerWatch)
		}
		w = new(callerWatch)
		a.by[who] = w
		var watching context.Context
		watching, w.cancel = context.WithCancel(s.ctx)
		a.running.Go(func() { s.watchForCaller(watching, who, &w.subscriptions) })
	}
	w.users++
	return &w.subscriptions, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if w.users--; w.users == 0 {
			w.cancel()
			delete(a.by, who)
		}
	}, nil
}

// active reports whether a caller has subscriptions.
func (a *callerWatches) active() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.by) > 0
}

// close waits for the watches, whose context must have ended.
func (a *callerWatches) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.running.Wait()
}

// watchForCaller watches the resources of one caller until ctx ends. It tries again after a failure, for example
// because the caller needs a login.
func (s *supervisor) watchForCaller(ctx context.Context, who principal.Principal, subs *subscriptions) {
	for ctx.Err() == nil {
		uris, changed := subs.uris()
		if len(uris) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
		} else if err := s.watchOnce(ctx, who, subs, uris, changed); err != nil {
			s.logger.Debug("watch of a caller ended", "error", err)
			sleep(ctx, rewatchDelay, changed)
			continue
		}
		sleep(ctx, subscribeDelay, nil)
	}
}

// watchOnce watches resources with the client of a caller until changed is closed or the watch fails.
func (s *supervisor) watchOnce(ctx context.Context, who principal.Principal, subs *subscriptions, uris []string,
	changed <-chan struct{}) error {
	if !s.snapshot().State.isUsable() {
		return errNotConnected
	}
	// The authorizer may have a token that was issued for the last request of the caller.
	info := &auth.Info{Principal: who, Scopes: strings.Fields(s.callerLists.latest(who).scopes)}
	ctx = WithCaller(auth.NewContext(ctx, info), &Caller{Auth: info})
	_, c, release, err := s.connectionFor(ctx, s.current())
	if err != nil {
		return err
	}
	defer release()
	return watchURIs(ctx, c, subs, uris, changed)
}

// latest returns the key of the last request of a principal.
func (l *callerLists) latest(who principal.Principal) listKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.order.Front(); e != nil; e = e.Next() {
		if key := e.Value.(*callerEntry).key; key.owner == who {
			return key
		}
	}
	return listKey{owner: who}
}

// keyOf returns the key of the caller of ctx.
func (l *callerLists) keyOf(ctx context.Context) listKey {
	caller := callerOf(ctx)
	if caller.Scopes == nil && auth.FromContext(ctx) == nil && call.From(ctx) == nil { // a subscription has no token
		return l.latest(caller.Principal)
	}
	return listKeyOf(caller)
}
