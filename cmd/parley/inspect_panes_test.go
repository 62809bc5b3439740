//go:build browser

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// newWarehouse returns a server that has tools only, with long names and results.
func newWarehouse(t *testing.T) *server.Server {
	t.Helper()
	s := &server.Server{Name: "warehouse", Version: "1"}
	for i, name := range []string{"a_report", strings.Repeat("reconcile_the_stock_with_the_ledger_", 3), "z"} {
		tool := mcp.Tool{Name: name, InputSchema: json.RawMessage(noArguments)}
		err := s.RegisterTool(tool, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{
				StructuredContent: json.RawMessage(fmt.Sprintf(`{"tool": %d, "value": %q}`, i, strings.Repeat("long ", 1000))),
				Content:           []mcp.Content{mcp.Text(strings.Repeat("a line\n", 300))},
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// reload loads the page again, as a user does.
func (p *inspectedPage) reload() {
	p.t.Helper()
	p.check(p.do(chromedp.Reload()))
}

func TestBrowserPanesKeepTheirSizesAndTheirPlace(t *testing.T) {
	p := inspectPage(t, serveTools(t, newWarehouse(t)))
	size := func(pane string) string {
		return `Number(document.querySelector('[data-pane="` + pane + `"]').ariaValueNow)`
	}
	p.see(`a_report`)

	// The keys and the pointer resize a pane, and a reload does not change that.
	p.awaitTrue(`(document.querySelector('[data-pane="list"]').focus(), ` + size("list") + ` === 260)`)
	p.check(p.do(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowLeft)))
	p.awaitTrue(size("list") + ` === 276 && document.querySelector(".column").offsetWidth === 276`)
	left := chromedp.ButtonLeft
	y, err := evaluate[float64](p.tab, `document.querySelector(".log").getBoundingClientRect().top`)
	p.check(err)
	p.check(p.do(chromedp.MouseEvent(chromedp.MousePressed, 600, y, left), chromedp.MouseEvent(chromedp.MouseMoved, 600, 100, left),
		chromedp.MouseEvent(chromedp.MouseReleased, 600, 100, left)))
	p.awaitTrue(size("log") + ` === 266 && document.querySelector(".log").offsetHeight === 266`) // a third of the window
	p.check(p.do(chromedp.EmulateViewport(1280, 720)))
	p.awaitTrue(`document.querySelector(".log").offsetHeight === 240`)
	p.check(p.do(chromedp.EmulateViewport(1280, 800)))
	p.reload()
	p.awaitTrue(size("list") + ` === 276 && ` + size("log") + ` === 266`)

	// Long names end in an ellipsis, and wrap on demand.
	fits := `(() => {
		const name = document.querySelectorAll(".column .entry-name > span")[1];
		return name.scrollWidth === name.clientWidth;
	})()`
	p.awaitTrue(`!` + fits + ` && document.querySelectorAll(".column .entry")[1].title.endsWith("_the_ledger_")`)
	p.press("Wrap")
	p.awaitTrue(fits)
	for _, view := range []string{"Prompts", "Resources"} {
		p.press(view)
		p.see(`The server has no ` + strings.ToLower(view))
	}
	p.reload()
	p.awaitTrue(fits)

	// Long values are shown on demand.
	p.press("Call Ctrl ↵")
	all := `document.querySelector(".result").innerText.includes("long ".repeat(900))`
	p.awaitTrue(`document.querySelector(".result")?.offsetHeight < 600 && !` + all)
	p.axe("long values")
	p.shot("long-values")
	p.press("Show all, 5.0 kB")
	p.awaitTrue(all)
	p.press("Show all, 2.1 kB")
	p.awaitTrue(`document.querySelector(".folded > div").offsetHeight > 3000`)

	// The page has asked for the list that the server has, once.
	p.fill("Filter by method, name or id", "/list")
	p.awaitTrue(`(() => {
		const methods = [...document.querySelectorAll(".row .method")].map((one) => one.innerText);
		return methods.filter((one) => one !== "subscriptions/listen").join() === "tools/list,tools/list";
	})()`)

	// A narrow window shows one pane at a time.
	visible := func(selectors ...string) string {
		quoted, _ := json.Marshal(selectors)
		return `document.documentElement.scrollWidth <= innerWidth && [".column", ".detail", ".log-body"].every((one) =>
			!!document.querySelector(one)?.checkVisibility() === ` + string(quoted) + `.includes(one))`
	}
	p.awaitTrue(visible(".column", ".detail", ".log-body"))
	p.size(390, true)
	p.awaitTrue(visible(".column"))
	p.axe("narrow list")
	p.shot("narrow-list")
	p.press("z")
	p.awaitTrue(visible(".detail") + ` && document.activeElement.matches(".back")`)
	p.axe("narrow tool")
	p.shot("narrow-tool")
	p.press("‹ Tools")
	p.awaitTrue(visible(".column") + ` && document.activeElement.matches(".entry")`)
	p.press("▸ Log")
	p.awaitTrue(visible(".log-body"))
	p.axe("narrow log")
	p.shot("narrow-log")
	p.press("▾ Log")
	p.awaitTrue(visible(".column"))
}
