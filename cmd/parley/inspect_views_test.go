//go:build browser

package main

import (
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/demo"
)

func TestInspectorListsAndCallsToolsInABrowser(t *testing.T) {
	p := inspectPage(t, serveTools(t, demo.New("test")))
	p.see(`(?s)greet.*weather`)
	p.press("greet")
	p.fill("name", "Ada")
	p.press("Call Ctrl ↵")
	p.see(`Hello, Ada!`)
	p.shotAll("call")
	p.press("book_table")
	p.fill("restaurant", "Roma")
	p.press("Call Ctrl ↵")
	p.see(`When do you want to eat at Roma`)
	p.shotAll("question")
	p.fill("date", "2027-01-31")
	p.press("Send the answer")
	p.see(`A table \(window\) at Roma`)
	p.shotAll("answered")
}
