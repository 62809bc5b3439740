package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

const patienceOfAudience = 20 * time.Second

// wantedAudiences says who receives what a server sends. The test looks for leaks first: everything that a server
// sends carries the name of the client on whose behalf it is sent, all clients act at the same time, and a client that
// receives something meant for another fails the test. Only then does it check that the right client receives it.
//
//	own   the client on whose behalf the server sends it, and no other client
//	user  clients of the same user, and no others
//	all   all clients
//	none  no client; if the server asked, it receives an error that names Sharing
//	-     the server cannot send it, or such a client cannot receive it
//
// If two are separated by a slash, either is right: a log message may arrive after the call of a program without a
// session. The columns are:
//
//	calls      who shares the connection on which the server receives calls
//	asks       a form, a sampling request or a request for roots during a call
//	progress   a notification during a call
//	log        a log message during a call
//	lateLog    a log message after the call, on the same connection
//	lateRoots  a request for roots after the call, on the same connection
//	           (other questions after the call are rejected)
//	moved      who shares the connection on which the server learns that the roots of a client have changed
//	update     a change of a resource that one client watches
//	list       an added tool; on a server with credentials of callers, a tool for one user
//
// The clients are two sessions of each of two users, each in a different revision, two sessions without authentication,
// and the same number of programs of 2026-07-28, which have no session. All are connected to one Host.
const wantedAudiences = `
server          clients         calls asks      progress log       lateLog lateRoots moved  update list
HTTP+SSE        users           own   own       own      own       own     own       own    own    all
HTTP+SSE        users/2026      user  user      own      user/none -       -         -      own    all
HTTP+SSE        strangers       own   own       own      own       own     own       own    own    all
HTTP+SSE        strangers/2026  all   none      own      none      -       -         -      own    all
sessions        users           own   own       own      own       own     own       own    own    all
sessions        users/2026      user  own       own      own       -       -         -      own    all
sessions        strangers       own   own       own      own       own     own       own    own    all
sessions        strangers/2026  all   own/none  own      own/none  -       -         -      own    all
no_sessions     users           all   own/none  own      own/none  none    none      none   -      -
no_sessions     users/2026      all   own/none  own      own/none  -       -         -      -      -
no_sessions     strangers       all   own/none  own      own/none  none    none      none   -      -
no_sessions     strangers/2026  all   own/none  own      own/none  -       -         -      -      -
2026-07-28      users           all   own       own      own       -       -         none   own    all
2026-07-28      users/2026      all   own       own      own       -       -         -      own    all
2026-07-28      strangers       all   own       own      own       -       -         none   own    all
2026-07-28      strangers/2026  all   own       own      own       -       -         -      own    all
command         users           user  user      own      user      user    user      user   own    all
command         users/2026      user  user      own      user/none -       -         -      own    all
command         strangers       all   none      own      none      none    none      none   own    all
command         strangers/2026  all   none      own      none      -       -         -      own    all
command/2026    users           all   own       own      own/none  -       -         none   own    all
command/2026    users/2026      all   own       own      own/none  -       -         -      own    all
command/2026    strangers       all   own       own      own/none  -       -         none   own    all
command/2026    strangers/2026  all   own       own      own/none  -       -         -      own    all
keys            users           own   own       own      own       own     own       own    own    all
keys            users/2026      own   own       own      own       -       -         -      own    all
keys            strangers       own   own       own      own       own     own       own    own    all
keys            strangers/2026  own   own/none  own      own/none  -       -         -      own    all
keys/26         users           own   own       own      own       -       -         none   own    all
keys/26         users/2026      own   own       own      own       -       -         -      own    all
keys/26         strangers       own   own       own      own       -       -         none   own    all
keys/26         strangers/2026  own   own       own      own       -       -         -      own    all
credentials     users           own   own       own      own       own     own       own    own    user
credentials     users/2026      user  own       own      own       -       -         -      own    user
credentials/26  users           user  own       own      own       -       -         none   own    user
credentials/26  users/2026      user  own       own      own       -       -         -      own    user
shared          users           all   own/none  own      own/none  none    none      none   own    all
shared          users/2026      all   own/none  own      own/none  -       -         -      own    all
shared          strangers       all   own/none  own      own/none  none    none      none   own    all
shared          strangers/2026  all   own/none  own      own/none  -       -         -      own    all
apart           users           own   own       own      own       own     own       own    own    all
apart           users/2026      user  user      own      user/none -       -         -      own    all
apart           strangers       own   own       own      own       own     own       own    own    all
apart           strangers/2026  all   none      own      none      -       -         -      own    all
`

// audienceKind describes the servers of one row of the table.
type audienceKind struct {
	name      string
	revisions []mcp.Revision
	command   bool
	stateless bool
	protected bool // the server requires the credentials of each user
	set       func(*host.ServerConfig)
}

var audienceKinds = []audienceKind{
	{name: "HTTP+SSE", revisions: []mcp.Revision{mcp.V20241105}},
	{name: "sessions", revisions: []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125}},
	{name: "no_sessions", revisions: []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125}, stateless: true},
	{name: "2026-07-28", revisions: []mcp.Revision{mcp.V20260728}},
	{name: "command", revisions: sessionRevisions(), command: true},
	{name: "command/2026", revisions: []mcp.Revision{mcp.V20260728}, command: true},
	{name: "keys", revisions: []mcp.Revision{mcp.V20241105, mcp.V20251125}, set: withKeys},
	{name: "keys/26", revisions: []mcp.Revision{mcp.V20260728}, set: withKeys},
	{name: "credentials", revisions: []mcp.Revision{mcp.V20250618, mcp.V20251125}, protected: true},
	{name: "credentials/26", revisions: []mcp.Revision{mcp.V20260728}, protected: true},
	{name: "shared", revisions: []mcp.Revision{mcp.V20251125},
		set: func(c *host.ServerConfig) { c.Sharing = host.SharingEveryone }},
	{name: "apart", revisions: []mcp.Revision{mcp.V20251125}, command: true,
		set: func(c *host.ServerConfig) { c.Sharing = host.SharingSession }},
}

// withKeys gives each client a key for the server.
func withKeys(c *host.ServerConfig) { c.CallerHeaders = map[string]string{"X-Key": "X-Key: ${value}"} }

func sessionRevisions() []mcp.Revision {
	return slices.DeleteFunc(mcp.Revisions(), mcp.Revision.Modern)
}

// audienceGroup contains clients that the table does not distinguish.
type audienceGroup struct {
	name      string
	members   []string // each is a user and a number
	revisions []mcp.Revision
}

var audienceGroups = []audienceGroup{
	{"users", []string{"ada-1", "ada-2", "bob-1", "bob-2"},
		[]mcp.Revision{mcp.V20251125, mcp.V20250618, mcp.V20250326, mcp.V20241105}},
	{"users/2026", []string{"ada-3", "ada-4", "bob-3", "bob-4"}, slices.Repeat([]mcp.Revision{mcp.V20260728}, 4)},
	{"strangers", []string{"stranger-1", "stranger-2"}, []mcp.Revision{mcp.V20251125, mcp.V20241105}},
	{"strangers/2026", []string{"stranger-3", "stranger-4"}, slices.Repeat([]mcp.Revision{mcp.V20260728}, 2)},
}

// userOf returns the user of a client. Nobody knows which strangers are the same person.
func userOf(member string) string {
	if user, _, _ := strings.Cut(member, "-"); user != "stranger" {
		return user
	}
	return member
}

func TestWhatAServerSendsReachesNoOtherClient(t *testing.T) {
	var everyone []string
	for _, group := range audienceGroups {
		everyone = append(everyone, group.members...)
	}
	for _, kind := range audienceKinds {
		for _, r := range kind.revisions {
			t.Run(fmt.Sprint(kind.name, "/", r), func(t *testing.T) {
				t.Parallel()
				a, config := newAudienceTest(t, kind, r, everyone)
				a.start(&host.Host{Servers: []host.ServerConfig{config}, Dialer: client.Dialer{Revision: r}})
				a.run()
			})
		}
	}
}

// audienceTest is a gateway to one server, and its clients.
type audienceTest struct {
	*testing.T
	up       *audienceServer
	kind     string
	everyone []string
	clients  map[string]*client.Client
	prefix   string         // prefix of the server's URIs
	added    map[string]int // number of tools that were added for a client
	moved    map[string]int // number of changes of a client's roots that the server must learn of

	mu        sync.Mutex
	heard     map[heard]int
	gaveRoots map[string]int // number of requests for roots that a client has answered
	changed   chan struct{}  // closed and replaced when something has happened
	checks    []func()       // checks to repeat at the end
}

// newAudienceTest starts a server for some clients.
func newAudienceTest(t *testing.T, kind audienceKind, r mcp.Revision, everyone []string) (*audienceTest,
	host.ServerConfig) {
	a := &audienceTest{T: t, up: newAudienceServer(r, everyone...), kind: kind.name, everyone: everyone,
		clients: make(map[string]*client.Client), added: make(map[string]int), moved: make(map[string]int),
		heard: make(map[heard]int), gaveRoots: make(map[string]int), changed: make(chan struct{})}
	a.up.stateless, a.up.noticed = kind.stateless, a.wake
	config := host.ServerConfig{Name: "up"}
	if kind.command {
		config.Target = a.up.serveCommand(t)
	} else {
		config.Target = a.up.serveHTTP(t)
	}
	if kind.protected {
		a.up.Auth, a.prefix = usersByToken(), "server:up/"
		config.Target = as("operator", config.Target.(*client.HTTPTarget).URL)
		config.CallerAuth = host.NewCallerAuth(func(who principal.Principal) (bearerToken, error) {
			return bearerToken(who.Subject()), nil
		})
	}
	if kind.set != nil {
		kind.set(&config)
	}
	return a, config
}

// heard is something that a client has received.
type heard struct{ client, event, owner string }

// start starts the gateway, with an endpoint for users and one for strangers, and connects the clients.
func (a *audienceTest) start(h *host.Host) {
	users, strangers := &server.Server{Name: "gateway", Auth: usersByToken()}, &server.Server{Name: "gateway"}
	h.Logger = quiet
	var gateways []*gateway.Gateway
	for _, s := range []*server.Server{users, strangers} {
		s.Logger, s.Limits = quiet, server.Limits{CallsPerSecond: -1}
		g := must.Get(gateway.New(h, s))(a.T)
		g.Logger = quiet
		gateways = append(gateways, g)
	}
	must.Do(a.T, h.Start())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, g := range gateways {
		running.Go(func() { g.Run(ctx) })
	}
	a.Cleanup(func() {
		cancel()
		running.Wait()
		h.Close()
	})
	waiting, stop := context.WithTimeout(a.Context(), patienceOfAudience)
	defer stop()
	for _, g := range gateways {
		must.Do(a.T, g.WaitReady(waiting))
	}
	ofUsers, ofStrangers := wiretest.Serve(a.T, users), wiretest.Serve(a.T, strangers)
	for _, group := range audienceGroups {
		for i, name := range group.members {
			target := client.Target(client.URL(ofStrangers))
			if user := userOf(name); user != name {
				target = as(user, ofUsers)
			}
			a.clients[name] = a.dial(name, group.revisions[i], target)
		}
	}
	for _, name := range a.everyone {
		begun := func() bool { // a change that arrives at once replaces the event that the watch began
			return a.count(heard{name, "watching", ""})+a.count(heard{name, "list", ""})+
				a.count(heard{name, "update", name}) > len(a.watched(name).URIs)
		}
		must.CheckThat(a, a.await(begun), "%s does not watch", name)
		a.added[name] = a.count(heard{name, "list", ""})
	}
}

// labels finds what a server sends in what a client receives.
var labels = regexp.MustCompile(`(\w+) of (\w+-[0-9])`)

// hears records that a client has received something.
func (a *audienceTest) hears(name, received string) {
	what := heard{name, received, ""}
	if m := labels.FindStringSubmatch(received); m != nil {
		what = heard{name, m[1], m[2]}
	}
	a.mu.Lock()
	a.heard[what]++
	a.mu.Unlock()
	a.wake()
}

// wake lets await look again.
func (a *audienceTest) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
}

// count returns how often a client has received something.
func (a *audienceTest) count(what heard) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard[what]
}

// hearers returns the clients that have received an event.
func (a *audienceTest) hearers(event, owner string) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for what := range a.heard {
		if what.event == event && what.owner == owner {
			names = append(names, what.client)
		}
	}
	slices.Sort(names)
	return names
}

// await waits until a condition of what was heard is met.
func (a *audienceTest) await(condition func() bool) bool { return a.awaitFor(a.patience(), condition) }

// patience returns how long something may take: less after a failure, so that a test with many failures ends
// soon.
func (a *audienceTest) patience() time.Duration {
	if a.Failed() {
		return time.Second / 2
	}
	return patienceOfAudience
}

func (a *audienceTest) awaitFor(d time.Duration, condition func() bool) bool {
	limit := time.After(d)
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if condition() {
			return true
		}
		select {
		case <-changed:
		case <-limit:
			return false
		}
	}
}

// dial connects a client, which answers with its name and watches its resource and the tools.
func (a *audienceTest) dial(name string, r mcp.Revision, target client.Target) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet, Header: http.Header{"X-Key": {name}}}
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		a.hears(name, form.Message)
		return mcp.AcceptElicit(struct{ Text string }{name})
	}
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		a.hears(name, text(params.Messages[0].Content))
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
			Content: []mcp.Content{mcp.Text(name)}}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) {
		a.hears(name, "asked for roots")
		return []mcp.Root{{URI: "file:///" + name}}, nil
	}
	d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) { a.hears(name, string(m.Data)) }
	ctx, cancel := context.WithTimeout(a.Context(), patienceOfAudience)
	defer cancel()
	c := must.Get(d.Dial(ctx, target))(a.T)
	a.Cleanup(func() { c.Close() })
	must.Do(a.T, c.SetLogLevel(ctx, mcp.LevelError))
	watching, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { a.watch(watching, name, c) })
	a.Cleanup(func() {
		stop()
		watch.Wait()
	})
	return c
}

// watched returns what a client watches: the tools and its resource.
func (a *audienceTest) watched(name string) client.WatchFilter {
	filter := client.WatchFilter{Tools: true}
	for _, group := range audienceGroups {
		if slices.Contains(group.members, name) && a.wants(group.name) != nil {
			filter.URIs = []string{a.prefix + resourceOf(name)}
		}
	}
	return filter
}

func (a *audienceTest) watch(ctx context.Context, name string, c *client.Client) {
	for change, err := range c.Watch(ctx, a.watched(name)) {
		switch {
		case err != nil:
			a.Errorf("%s watches: %v", name, err)
		case change.Resync:
			a.hears(name, "watching")
		case change.URI != "":
			_, owner, _ := strings.Cut(change.URI, resourceOf(""))
			a.hears(name, "update of "+owner)
		default:
			a.hears(name, "list")
		}
	}
}

// wants returns the audience of each event of a group of clients, or nil if the table does not list the group.
func (a *audienceTest) wants(group string) map[string]string {
	rows := strings.Split(strings.TrimSpace(wantedAudiences), "\n")
	columns := strings.Fields(rows[0])
	for _, row := range rows[1:] {
		if cells := strings.Fields(row); cells[0] == a.kind && cells[1] == group {
			wants := make(map[string]string)
			for i, column := range columns[2:] {
				wants[column] = cells[2+i]
			}
			return wants
		}
	}
	return nil
}
