package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mcp/parley/internal/must"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]Options{
		"redis://localhost": {Addrs: []string{"localhost:6379"}},
		"redis://ada:secret@localhost:7000/3": {Addrs: []string{"localhost:7000"}, Username: "ada",
			Password: "secret", DB: 3},
		"redis://:p%40ss@[::1]:7000/": {Addrs: []string{"[::1]:7000"}, Password: "p@ss"},
		"redis://a:1?master=main&addr=b:2&addr=c:3": {Addrs: []string{"a:1", "b:2", "c:3"},
			MasterName: "main"},
		"redis://a:1?cluster=true&addr=b:2&prefix=x:&conns=4": {Addrs: []string{"a:1", "b:2"}, Cluster: true,
			Prefix: "x:", Conns: 4},
		"redis://a:1?allow-eviction=true": {Addrs: []string{"a:1"}, AllowEviction: true},
	} {
		got, err := ParseURL(text)
		must.Check(t, err, text)
		must.CheckEqual(t, cmp.Diff(want, got), "", text, "-want +got")
	}
	secure, err := ParseURL("rediss://redis.example:6380")
	must.CheckThat(t, err == nil && secure.TLS != nil, "ParseURL of rediss = %+v, %v; want TLS", secure, err)
	must.CheckEqual(t,
		cmp.Diff(Options{Addrs: []string{"redis.example:6380"}}, secure, cmpopts.IgnoreFields(Options{}, "TLS")), "")
}

func TestParseURLExplainsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"localhost:6379":                "scheme",
		"http://localhost":              "scheme",
		"redis://":                      "host",
		"redis://a/x":                   "number of a database",
		"redis://a?color=red":           "unknown parameter",
		"redis://a?cluster=maybe":       "parameter cluster",
		"redis://a?conns=many":          "parameter conns",
		"redis://a?cluster=1&master=b":  "both",
		"redis://a?addr=b:1":            "MasterName",
		"redis://a/1?cluster=true":      "DB",
		"redis://a?prefix={x}":          "braces",
		"redis://a?conns=-1":            "Conns",
		"redis://user:secret@a:b":       "cannot parse URL",
		"redis://user:secret@a/%zz":     "cannot parse URL",
		"redis://user:sec ret@a:1/\x00": "cannot parse URL",
	} {
		_, err := ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseURL(%q): %v, want an error with %q", text, err, want)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec ret") {
			t.Errorf("ParseURL(%q): the error contains the password: %v", text, err)
		}
	}
}

func TestOpenChecksOptions(t *testing.T) {
	for _, o := range []Options{{}, {Addrs: []string{"a:1"}, DB: -1}, {Addrs: []string{"a:1", "b:1"}}} {
		if s, err := Open(context.Background(), o); err == nil {
			_ = s.Close()
			t.Errorf("Open(%+v) succeeded", o)
		}
	}
}

// reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestErrorsOfRedisAreExplained(t *testing.T) {
	for text, want := range map[string]struct {
		advice      string
		unavailable bool
	}{
		"NOPERM User ada has no permissions to run the 'get' command":       {"grant the user", false},
		"ERR unknown command 'UNLINK', with args beginning with: ":          {"version 7", false},
		"ERR max number of clients reached":                                 {"maxclients", true},
		"ERR max number of clients + cluster connections reached":           {"maxclients", true},
		"LOADING Redis is loading the dataset in memory":                    {"starting", true},
		"WRONGTYPE Operation against a key holding the wrong kind of value": {"another program", false},
		"ERR syntax error": {"redisstore: ERR syntax error", false},
	} {
		err := explain(context.Background(), reply(text))
		must.CheckThat(t, strings.Contains(err.Error(), want.advice) && strings.Contains(err.Error(), text) &&
			errors.Is(err, ErrUnavailable) == want.unavailable,
			"explain(%q) = %v, want an error with %q that wraps ErrUnavailable: %v", text, err, want.advice,
			want.unavailable)
	}
}

// tag returns the hash tag of a Redis key: the text between the first brace and the next closing brace.
func tag(name string) string {
	_, rest, _ := strings.Cut(name, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

func TestHashTagIsOwnerKindAndID(t *testing.T) {
	s := &redisStore{prefix: DefaultPrefix}
	for key, want := range map[string]string{
		"anonymous/session/1":                   "/anonymous/session/1",
		"anonymous/session/1/stream/2":          "/anonymous/session/1",
		"local/task/1/":                         "/local/task/1",
		"user/issuer/subject/client/session/1":  "/user/issuer/subject/client/session/1",
		"user/issuer/subject/client/session/1/": "/user/issuer/subject/client/session/1",
		"user/issuer/subject//session/1/x":      "/user/issuer/subject//session/1",
		"user/issuer/subject/client/tasks":      "/user/issuer/subject/client/tasks",
		"replica/1":                             "/replica/1",
		"k":                                     "/k",
		"}":                                     "/",
		"{}/x":                                  "/{",
	} {
		for _, kind := range []string{itemKind, membersKind, expiryKind, groupKind} {
			must.CheckEqual(t, tag(s.name(kind, key)), want, "the hash tag", key)
		}
	}
}

func FuzzKeysHaveDifferentNames(f *testing.F) {
	f.Add("a/b/c", "a/b/c}")
	f.Add("a/b/c}/d", "a/b/c/d")
	f.Add("user/a/b/c/d/e/f", "user/a/b/c/d/e}/f")
	f.Add("a/b/c/d}e", "a/b/c}/d}e")
	f.Fuzz(func(t *testing.T, a, b string) {
		s := &redisStore{prefix: DefaultPrefix}
		for _, kinds := range [][2]string{{itemKind, itemKind}, {itemKind, groupKind}, {membersKind, expiryKind}} {
			same := a == b && kinds[0] == kinds[1]
			must.CheckEqual(t, s.name(kinds[0], a) == s.name(kinds[1], b), same, a, b, kinds, "have the same name")
			must.CheckThat(t, tag(s.name(kinds[0], a)) != "", "key %q has an empty hash tag", a)
		}
	})
}

// callCost is one kind of call, and the Redis operations that it needs in all replicas together. Every
// operation is one round trip. TestCallsTakeTheRoundTripsOfTheTable measures them.
type callCost struct {
	call       string
	operations string // with their numbers, in alphabetical order
}

// callTable is the table in store/redisstore/CAPACITY.md.
var callTable = []callCost{
	{"**2026-07-28**", ""},
	{"`tools/call` and other requests", ""},
	{"call with a question, whose handler runs again", ""},
	{"`server.Once`, first run", "2 Put"},
	{"`server.Once`, next run", "Get, Put"},
	{"parked call, until its question", "2 Add, 3 Get, Publish, 2 Put, Subscribe"},
	{"parked call, answer at another replica until the result",
		"Delete, 8 Get, 2 Publish, 2 Put, 2 Remove, Subscribe, 2 Unsubscribe"},
	{"`subscriptions/listen` for lists and resources", ""},

	{"**Session**", ""},
	{"`initialize`", "Put"},
	{"`notifications/initialized`", "Put"},
	{"first request at a replica", "Get, Touch"},
	{"`tools/call`, JSON response", "Touch"},
	{"`tools/call`, event stream with the response only", "Append, Touch"},
	{"`tools/call` with three progress notifications", "4 Append, Touch"},
	{"`tools/call` with a question, answered at its replica", "2 Append, 2 Touch"},
	{"`tools/call` with a question, answered at another replica", "2 Append, Publish, Put, 2 Touch"},
	{"`notifications/cancelled` at another replica", "Append, Publish, Touch"},
	{"resumption while the call runs, at its replica, until the response", "Append, 2 ReadAfter, Touch"},
	{"resumption after the call, at another replica", "3 ReadAfter, Touch"},
	{"GET stream", "Publish, Put, Touch"},
	{"update of a resource, notification on a GET stream", "Append, Publish"},
	{"`resources/subscribe`", "Publish, Put, Touch"},
	{"`resources/unsubscribe`", "Publish, Put, Touch"},
	{"`logging/setLevel`", "Put, Touch"},
	{"`DELETE`", "Delete, Drop, Get, Publish"},
	{"`DELETE`, 2024-11-05, which has no resumable streams", "Delete, Get, Publish"},

	{"**Task**, 2026-07-28", ""},
	{"creation", "2 Add, Put, Subscribe"},
	{"end of the handler", "Get, Publish, Put, Remove, Unsubscribe"},
	{"`tasks/get` at the replica that runs the task", "Get"},
	{"`tasks/get` at another replica", "2 Get"},
	{"`tasks/get` after the end", "Get"},
	{"question of the handler", "2 Get, Publish, Put"},
	{"`tasks/update` at another replica, until the handler has the answer", "3 Get, Publish, Put"},
	{"`tasks/cancel` at another replica, until the handler has ended", "3 Get, Publish, Put, Remove, Unsubscribe"},
	{"`subscriptions/listen` for a task, until its first state", "4 Get, Subscribe"},

	{"**Task**, 2025-11-25", ""},
	{"creation in a session", "2 Add, Get, Put, Subscribe, Touch"},
	{"`tasks/get` in a session, at another replica", "2 Get, Touch"},
	{"`tasks/result` after the end", "Get, Subscribe, Touch, Unsubscribe"},
	{"`tasks/cancel` in a session, at another replica, until the handler has ended",
		"3 Get, 2 Publish, Put, Remove, Touch, Unsubscribe"},

	{"**Replicas**", ""},
	{"announcement of a change of a list or resource", "Publish"},
}

// trips returns the number of round trips.
func (c callCost) trips() (n int) {
	for operation := range strings.SplitSeq(c.operations, ", ") {
		switch number, _, several := strings.Cut(operation, " "); {
		case several:
			m, _ := strconv.Atoi(number)
			n += m
		case operation != "":
			n++
		}
	}
	return n
}

func (c callCost) isHeading() bool { return strings.HasPrefix(c.call, "**") }

// The page for operators states the measured numbers.
func TestScalePageHasTheTable(t *testing.T) {
	page := must.Get(os.ReadFile("CAPACITY.md"))(t)
	var table strings.Builder
	table.WriteString("| call | round trips | operations |\n|---|---|---|\n")
	for _, c := range callTable {
		if c.isHeading() {
			fmt.Fprintf(&table, "| %s | | |\n", c.call)
		} else {
			fmt.Fprintf(&table, "| %s | %d | %s |\n", c.call, c.trips(), c.operations)
		}
	}
	must.CheckContains(t, string(page), "\n"+table.String()+"\n", &table)
}
