package redisstore

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// callCost is one kind of call, and the operations at Redis that it needs in all replicas together. Every
// operation is one round trip. TestCallsTakeTheRoundTripsOfTheTable measures them.
type callCost struct {
	call       string
	operations string // with their numbers, in alphabetical order
}

// callTable is the table in docs/program/appendix-redis.md.
var callTable = []callCost{
	{"**2026-07-28**", ""},
	{"`tools/call` and other requests", ""},
	{"call with a question, whose handler runs again", ""},
	{"`server.Once`, first run", "2 Put"},
	{"`server.Once`, next run", "Get, Put"},
	{"parked call, until its question", "2 Add, 3 Get, Publish, 2 Put, Subscribe"},
	{"parked call, answer at another replica until the result", "Delete, 8 Get, 2 Publish, 2 Put, 2 Remove, Subscribe, 2 Unsubscribe"},
	{"`subscriptions/listen` for lists and resources", ""},

	{"**Session**", ""},
	{"`initialize`", "Put"},
	{"`notifications/initialized`", "Get, Put"},
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
	{"`DELETE`", "Delete, Drop, Get, Publish, Touch"},

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
	{"`tasks/cancel` in a session, at another replica, until the handler has ended", "3 Get, 2 Publish, Put, Remove, Touch, Unsubscribe"},

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

// The page for operators has the measured numbers.
func TestScalePageHasTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/program/appendix-redis.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| call | round trips | operations |\n|---|---|---|\n")
	for _, c := range callTable {
		if c.isHeading() {
			fmt.Fprintf(&table, "| %s | | |\n", c.call)
		} else {
			fmt.Fprintf(&table, "| %s | %d | %s |\n", c.call, c.trips(), c.operations)
		}
	}
	if !strings.Contains(string(page), "\n"+table.String()+"\n") {
		t.Errorf("docs/program/appendix-redis.md must have this table:\n%s", &table)
	}
}
