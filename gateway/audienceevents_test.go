package gateway_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// This file provokes the events of the table in audience_test.go, and checks who receives them.

// run provokes all events of each group of clients.
func (a *audienceTest) run() {
	for _, group := range audienceGroups {
		wants := a.wants(group.name)
		if wants == nil {
			continue
		}
		for _, event := range []string{"form", "sampling", "roots", "progress", "log"} {
			a.during(group, event, wants)
		}
		for _, owner := range group.members {
			a.after(owner, wants)
			a.moves(owner, wants["moved"])
		}
		a.updates(group, wants["update"])
		a.adds(group, wants["list"])
	}
	a.total()
}

// total repeats the checks with late arrivals, and checks messages that do not name their owner.
func (a *audienceTest) total() {
	for _, check := range a.checks {
		check()
	}
	for _, name := range a.everyone {
		if got := a.count(heard{name, "list", ""}); got > a.added[name] {
			a.Errorf("%s has received %d changes of the list, after %d", name, got, a.added[name])
		}
	}
	for _, group := range audienceGroups {
		for _, name := range group.members { // if a user has several clients, another one may have answered first
			got := a.count(heard{name, "asked for roots", ""})
			must.CheckThat(a, got == a.gaveRoots[name] || a.wants(group.name)["asks"] == "user",
				"%s was asked for its roots %d times, and has given them %d times", name, got, a.gaveRoots[name])
		}
	}
	for _, l := range a.up.all() {
		changes := 0
		for _, owner := range l.owners() {
			changes += a.moved[owner]
		}
		if got := l.timesMoved(); got > changes {
			a.Errorf("the connection of %q has received %d changes of roots, after %d", l.owners(), got, changes)
		}
	}
}

// during lets the server send something during calls of all clients of a group at the same time.
func (a *audienceTest) during(group audienceGroup, event string, wants map[string]string) {
	want, ok := wants[event]
	if !ok {
		want = wants["asks"]
	}
	if want == "-" || event == "form" && a.up.revision < mcp.V20250618 {
		return
	}
	members := group.members
	if event == "form" { // clients that can be asked
		members = slices.DeleteFunc(slices.Clone(members), func(name string) bool {
			return group.revisions[slices.Index(group.members, name)] < mcp.V20250618
		})
	}
	var calling sync.WaitGroup
	for _, owner := range members {
		calling.Go(func() {
			what := provoked{event, owner, members[0], len(members)}
			ctx, cancel := context.WithTimeout(a.Context(), a.patience())
			defer cancel()
			answer, err := client.CallTool[string](ctx, a.clients[owner], "up__provoke", what,
				client.WithProgress(func(_, total float64, _ string) { // progress has no message in 2024-11-05
					a.hears(owner, "progress of "+a.everyone[int(total)])
				}))
			a.checkAnswer(what, want, !ok, answer, err)
		})
	}
	calling.Wait()
}

// checkAnswer checks the outcome of a call.
func (a *audienceTest) checkAnswer(what provoked, want string, asks bool, answer string, err error) {
	if err == nil && what.Event == "roots" {
		a.givesRoots(answer, what.String())
	}
	switch reported := a.up.errorOf(what); {
	case err == nil && asks && !a.fits(want, what.Owner, []string{answer}):
		a.Errorf("%s: %s has answered, not %s", what, answer, want)
	case err == nil && !asks && answer != what.Owner:
		a.Errorf("%s: %s has the result of %q", what.Event, what.Owner, answer)
	case err != nil && !(asks && strings.Contains(want, "none")):
		a.Errorf("%s: %v", what, err)
	case err != nil && !strings.Contains(reported, "Sharing"):
		a.Errorf("%s: the server has received %q, which does not name Sharing: %v", what, reported, err)
	}
	a.check(what.Event, what.Owner, want)
}

// givesRoots records that a server has received the roots of a client.
func (a *audienceTest) givesRoots(name, label string) {
	a.mu.Lock()
	a.gaveRoots[name]++
	a.mu.Unlock()
	a.hears(name, label)
}

// check checks who has received an event of a client.
func (a *audienceTest) check(event, owner, want string) {
	a.Helper()
	if !a.await(func() bool { return a.fits(want, owner, a.hearers(event, owner)) }) {
		a.Errorf("%s of %s: received by %q, not %s", event, owner, a.hearers(event, owner), want)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, func() {
		got := a.hearers(event, owner)
		must.CheckThat(a, a.fits(want, owner, got), "%s of %s: received by %q at last, not %s", event, owner, got, want)
	})
}

// fits reports whether the clients that received an event are the wanted audience of its owner.
func (a *audienceTest) fits(want, owner string, got []string) bool {
	isOther := func(name string) bool { return userOf(name) != userOf(owner) }
	for _, audience := range strings.Split(want, "/") {
		switch audience {
		case "own":
			if slices.Equal(got, []string{owner}) {
				return true
			}
		case "user":
			if len(got) > 0 && !slices.ContainsFunc(got, isOther) {
				return true
			}
		case "all":
			if len(got) == len(a.everyone) {
				return true
			}
		case "none":
			if len(got) == 0 {
				return true
			}
		default:
			a.Fatalf("the table has the audience %q", audience)
		}
	}
	return false
}

// after lets the server send something on the connection over which a client has called it.
func (a *audienceTest) after(owner string, wants map[string]string) {
	l := a.up.linkOf(owner)
	if l == nil {
		a.Errorf("no call of %s has arrived", owner)
		return
	}
	if want := wants["calls"]; want != "all" {
		got := l.owners()
		must.CheckThat(a, a.fits(want, owner, got), "%s shares a connection with %q, not %s", owner, got, want)
	}
	patience := a.patience()
	if wants["lateLog"] == "none" {
		patience = 0
	}
	if wants["lateLog"] == "-" || !l.canSend(patience) {
		return
	}
	for level, event := range map[string]string{"debug": "unwanted", "error": "lateLog"} { // see dial
		l.notify(a.T, mcp.NotificationMessage, fmt.Sprintf(`{"level":%q,"data":"%s of %s"}`, level, event, owner))
	}
	l.ask(a.T, mcp.MethodPing, "{}") // then the message has been read
	a.check("lateLog", owner, wants["lateLog"])
	a.check("unwanted", owner, "none")
	answer := l.ask(a.T, mcp.MethodListRoots, "{}")
	if m := rootOfAnswer.FindStringSubmatch(answer); m != nil {
		a.givesRoots(m[1], "lateRoots of "+owner)
	} else if !strings.Contains(answer, "Sharing") {
		a.Errorf("a request for the roots of %s has the response %s, which does not name Sharing", owner, answer)
	}
	a.check("lateRoots", owner, wants["lateRoots"])
	question := fmt.Sprintf(`{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"late of %s"}}]}`,
		owner)
	must.CheckContains(a.T, l.ask(a.T, mcp.MethodCreateMessage, question), `"error"`)
	a.check("late", owner, "none")
}

var rootOfAnswer = regexp.MustCompile(`"file:///([^"]+)"`)

// moves changes the roots of a client.
func (a *audienceTest) moves(owner, want string) {
	if want == "-" {
		return
	}
	before := make(map[*upLink]int)
	for _, l := range a.up.all() {
		before[l] = l.timesMoved()
	}
	notified := func() (owners []string) {
		for _, l := range a.up.all() {
			if l.timesMoved() > before[l] {
				owners = append(owners, l.owners()...)
			}
		}
		return owners
	}
	if want != "none" {
		a.moved[owner]++
	}
	must.Do(a.T, a.clients[owner].NotifyRootsChanged(a.Context()))
	if !a.await(func() bool { return a.fits(want, owner, notified()) }) {
		a.Errorf("the change of the roots of %s reaches connections of %q, not %s", owner, notified(), want)
	}
}

// updates changes the resources that the clients of a group watch, until each knows.
func (a *audienceTest) updates(group audienceGroup, want string) {
	if want == "-" {
		return
	}
	before := make(map[string]int)
	for _, owner := range group.members {
		before[owner] = a.count(heard{owner, "update", owner})
	}
	pending := func() (owners []string) {
		for _, owner := range group.members { // the first change may only report that the gateway has subscribed
			if a.count(heard{owner, "update", owner}) < before[owner]+2 {
				owners = append(owners, owner)
			}
		}
		return owners
	}
	for limit := time.Now().Add(a.patience()); pending() != nil && time.Now().Before(limit); {
		for _, owner := range pending() {
			a.up.ResourceUpdated(resourceOf(owner))
		}
		a.awaitFor(50*time.Millisecond, func() bool { return pending() == nil })
	}
	for _, owner := range group.members {
		a.check("update", owner, want)
	}
}

// adds adds a tool for all users, or for each user of the group.
func (a *audienceTest) adds(group audienceGroup, want string) {
	for i, owner := range group.members {
		if want == "-" || i%2 != 0 || want == "all" && i > 0 { // once for each user
			continue
		}
		concerns := func(name string) bool { return want == "all" || userOf(name) == userOf(owner) }
		before := make(map[string]int)
		for _, name := range a.everyone {
			before[name] = a.count(heard{name, "list", ""})
		}
		missing := func() (names []string) {
			for _, name := range a.everyone {
				if concerns(name) && a.count(heard{name, "list", ""}) == before[name] {
					names = append(names, name)
				}
			}
			return names
		}
		visible := server.VisibleTo(func(who principal.Principal, _ string) bool {
			return want == "all" || who.Subject() == userOf(owner)
		})
		limit := time.Now().Add(a.patience())
		for round := 0; missing() != nil && time.Now().Before(limit); round++ {
			// The gateway may begin to watch the list later than the client.
			server.AddTool(a.up, mcp.Tool{Name: fmt.Sprintf("added_%s_%d", owner, round)},
				func(context.Context, none) (string, error) { return "", nil }, visible)
			for _, name := range a.everyone {
				if concerns(name) {
					a.added[name]++
				}
			}
			a.awaitFor(time.Second, func() bool { return missing() == nil })
		}
		names := missing()
		must.CheckThat(a, names == nil, "the change of the list of %s does not reach %q", owner, names)
	}
}

type callOf struct{}

// Without a gateway, the program answers every question of a server, and receives everything else, once for each call.
// The context is the context of the call, if the server says which call it means; over a byte stream it does not.
func TestWhatAServerSendsReachesTheProgramOnce(t *testing.T) {
	owners := []string{"caller-1", "caller-2", "caller-3"}
	for _, kind := range audienceKinds {
		for _, r := range kind.revisions {
			if kind.protected {
				continue // without a gateway, nobody has credentials
			}
			t.Run(fmt.Sprint(kind.name, "/", r), func(t *testing.T) {
				t.Parallel()
				a, config := newAudienceTest(t, kind, r, owners)
				hears := func(ctx context.Context, label string) {
					owner, _ := ctx.Value(callOf{}).(string)
					of := labels.FindStringSubmatch(label)
					says := !kind.command && r > mcp.V20241105 || r.Modern() && of[1] != "log"
					must.CheckThat(t, !says || of[1] == "lateLog" || owner == of[2],
						"%s has the context of %q", label, owner)
					a.hears("program", label)
				}
				d := client.Dialer{Revision: r}
				d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					hears(ctx, form.Message)
					return mcp.AcceptElicit(struct{ Text string }{"program"})
				}
				d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
					hears(ctx, text(params.Messages[0].Content))
					return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
						Content: []mcp.Content{mcp.Text("program")}}, nil
				}
				d.Roots = func(context.Context) ([]mcp.Root, error) {
					a.hears("program", "asked for roots")
					return []mcp.Root{{URI: "file:///program"}}, nil
				}
				d.OnLog = func(ctx context.Context, m mcp.LoggingMessageParams) { hears(ctx, string(m.Data)) }
				h := &host.Host{Servers: []host.ServerConfig{config}, Dialer: d, Logger: quiet}
				must.Do(t, h.Start())
				t.Cleanup(func() { h.Close() })
				ctx, cancel := context.WithTimeout(t.Context(), patienceOfAudience)
				defer cancel()
				must.Do(t, h.WaitReady(ctx))
				a.program(ctx, h, owners)
			})
		}
	}
}

// program provokes all events, as a program with several calls in flight.
func (a *audienceTest) program(ctx context.Context, h *host.Host, owners []string) {
	for _, event := range []string{"form", "sampling", "roots", "progress", "log"} {
		if event == "form" && a.up.revision < mcp.V20250618 {
			continue
		}
		var calling sync.WaitGroup
		for _, owner := range owners {
			calling.Go(func() {
				result, err := h.Call(context.WithValue(ctx, callOf{}, owner), "up__provoke",
					provoked{event, owner, "", len(owners)}, client.WithLogLevel(mcp.LevelDebug),
					client.WithProgress(func(_, total float64, _ string) {
						a.hears("program", "progress of "+owners[int(total)])
					}))
				want := owner
				if event == "form" || event == "sampling" || event == "roots" {
					want = "program"
				}
				must.CheckThat(a, err == nil && !result.IsError && text(result.Content) == want,
					"%s of %s: %+v, %v", event, owner, result, err)
				if event != "roots" {
					a.once(event, owner)
				}
			})
		}
		calling.Wait()
	}
	must.CheckEqual(a.T, a.count(heard{"program", "asked for roots", ""}), len(owners))
	l := a.up.linkOf(owners[0])
	if a.up.revision.Modern() || a.up.stateless || !l.canSend(patienceOfAudience) {
		return
	}
	l.notify(a.T, mcp.NotificationMessage, `{"level":"error","data":"lateLog of caller-1"}`)
	a.once("lateLog", owners[0])
	must.CheckContains(a.T, l.ask(a.T, mcp.MethodListRoots, "{}"), "file:///program")
	before := l.timesMoved()
	h.NotifyRootsChanged(ctx)
	must.CheckThat(a, a.await(func() bool { return l.timesMoved() == before+1 }),
		"the server does not learn that the roots have changed")
}

// once checks that the program has received an event exactly once.
func (a *audienceTest) once(event, owner string) {
	what := heard{"program", event, owner}
	if !a.await(func() bool { return a.count(what) > 0 }) || a.count(what) != 1 {
		a.Errorf("the program has received %s of %s %d times", event, owner, a.count(what))
	}
}
