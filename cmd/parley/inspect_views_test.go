//go:build browser

package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

// axe fails if the page has violations of the rules of axe-core.
func (p *inspectedPage) axe(state string) {
	p.t.Helper()
	source, err := os.ReadFile("../../.tools/inspector/node_modules/axe-core/axe.min.js")
	must.Do(p.t, err)
	_, err = evaluate[bool](p.tab, string(source)+";true")
	p.check(err)
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	found, err := chromedp.Run(ctx,
		chromedp.Evaluate[string](`axe.run(document, { resultTypes: ["violations"] }).then((r) =>
		r.violations.map((v) => v.id + ": " + v.help + "\n" + v.nodes.slice(0, 3).map((n) => "  " + n.target.flat().join(" ") + " " + n.failureSummary.replaceAll("\n", " ")).join("\n")).join("\n"))`,
			chromedp.EvalAwaitPromise))
	p.check(err)
	must.CheckThat(p.t, found == "", "%s: axe finds\n%s", state, found)
}

// review takes screenshots of a state and checks it with axe, in light and dark.
func (p *inspectedPage) review(state string) {
	p.t.Helper()
	for _, dark := range []bool{true, false} {
		for _, width := range []int64{800, 1280} {
			p.size(width, dark)
			colours := map[bool]string{true: "dark", false: "light"}[dark]
			p.shot(state + "-" + map[int64]string{800: "800", 1280: "1280"}[width] + "-" + colours)
			p.axe(state + ", " + colours)
		}
	}
}

func TestBrowserCallsAToolWithANestedForm(t *testing.T) {
	p := inspectPage(t, serveTools(t, newGallery(t)))
	p.press("order")
	p.fill("name", "Ada")
	p.press("Add an item")
	p.fill("article", "chair")
	p.fill("quantity", "12")
	p.see(`must be .*9`)
	p.review("invalid")
	p.fill("quantity", "2")
	p.press("Post")
	p.fill("street", "Long Road 1")
	p.fill("city", "Oslo")
	p.fill("gift", "true")
	p.press("wrap")
	p.awaitTrue(`document.querySelector(".editor").shadowRoot.querySelector(".cm-content").innerText.includes('"city": "Oslo"')`)
	p.press("Call Ctrl ↵")
	p.see(`ordered`)
	p.review("order")
	sent, err := evaluate[string](p.tab, `document.querySelector(".call pre").innerText`)
	p.check(err)
	var got, want any
	must.Do(t, json.Unmarshal([]byte(strings.TrimPrefix(sent, "ordered ")), &got), sent)
	_ = json.Unmarshal([]byte(`{"customer":{"name":"Ada"},"items":[{"article":"chair","quantity":2}],`+
		`"delivery":{"way":"post","address":{"street":"Long Road 1","city":"Oslo"}},"gift":true,"extras":["wrap"]}`),
		&want)
	diff := cmp.Diff(want, got)
	must.CheckThat(t, diff == "", "the tool receives other arguments (-want +got):\n%s", diff)

	// The form shows what is written in the editor.
	p.awaitTrue(`(() => {
		document.querySelector(".editor").shadowRoot.querySelector(".cm-content").focus();
		document.execCommand("selectAll");
		return document.execCommand("insertText", false, '{"customer": {"name": "Grace"}}');
	})()`)
	p.awaitTrue(`[...document.querySelectorAll("textarea")].some((one) => one.value === "Grace")`)
}

func TestBrowserRendersResults(t *testing.T) {
	p := inspectPage(t, serveTools(t, newGallery(t)))
	p.press("show")
	p.press("Call Ctrl ↵")
	p.see(`(?s)cups.*Gallery.*nested.*cup\s+3`)
	p.awaitTrue(`document.querySelector(".call img").naturalWidth === 40 && document.querySelector(".call ` +
		`audio").duration >= 0`)
	p.awaitTrue(`document.querySelector(".markdown h3")?.innerText === "Gallery" && ` +
		`!document.querySelector(".markdown script") && document.title === "Parley Inspector"`)
	p.review("result")
	p.press("Open The note")
	p.see(`Remember the milk`)
	p.review("resource")
}

func TestBrowserAnswersQuestions(t *testing.T) {
	p := inspectPage(t, serveTools(t, demo.New("test")))
	p.press("book_table")
	p.fill("restaurant", "Roma")
	p.press("Call Ctrl ↵")
	p.see(`When do you want to eat at Roma`)
	p.review("question")
	p.fill("people", "50")
	p.fill("date", "2027-01-31")
	p.press("Send the answer")
	p.see(`must be .*12, not .*50`)
	p.fill("people", "4")
	p.press("vegan")
	p.press("Send the answer")
	p.see(`for 4 on 2027-01-31; vegan`)
	p.see(`(?s)input required: 1 of round 1.*the user answers: accept.*tools/call again, round 2`)
	p.review("answered")

	p.press("summarize")
	p.fill("text", "a long text")
	p.press("Call Ctrl ↵")
	p.see(`asks for a message from a model`)
	p.fill("The model's message", "It is long.")
	p.review("sampling")
	p.press("Send the message")
	p.awaitTrue(`document.querySelector(".call pre")?.innerText === "It is long."`)

	p.press("workspace")
	p.press("Call Ctrl ↵")
	p.fill("Roots", "file:///work")
	p.press("Send 1 root")
	p.see(`file:///work`)

	p.press("terms")
	p.press("Call Ctrl ↵")
	p.see(`asks you to open a page`)
	p.press("Decline")
	p.awaitTrue(`document.querySelector(".call")?.dataset.state === "done"`)
}

func TestBrowserWatchesATask(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		p := inspectPage(t, "--revision", revision, serveTools(t, demo.New("test")))
		p.press("bake")
		p.fill("kind", "plum")
		p.fill("milliseconds", "300")
		if revision == "2025-11-25" {
			p.press("as a task")
		}
		p.press("Call Ctrl ↵")
		p.see(`task: working`)
		p.see(`The plum cake is baked`)
		p.see(`task: input_required`)
		p.fill("candles", "7")
		p.press("Send the answer")
		p.see(`candles: 7`)
		p.see(`(?s)task is working.*task is input_required.*the user answers: accept.*task is completed`)
		p.review("task-" + revision)
		p.press("Calls")
		p.see(`(?s)bake.*done`)
		p.review("calls")
	}
}

func TestBrowserWatchesATaskOfAnotherProgram(t *testing.T) {
	url := serveTools(t, demo.New("test"))
	p := inspectPage(t, url)
	p.see(`2026-07-28`)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	elicit := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return nil, errors.New("not here")
	}
	c, err := (&client.Dialer{Name: "other", Elicit: elicit, Logger: slog.New(slog.DiscardHandler)}).Dial(ctx,
		client.URL(url))
	must.Do(t, err)
	defer c.Close()
	task, err := c.StartTool(ctx, "bake", map[string]any{"kind": "plum", "milliseconds": 1})
	must.Do(t, err)
	p.press("Calls")
	p.fill("Task ID on 127.0.0.1"+strings.TrimPrefix(url, "http://127.0.0.1"), task.ID())
	p.review("watch")
	p.press("Watch")
	p.see(`task: input_required`)
	p.fill("candles", "7")
	p.press("Send the answer")
	p.see(`candles: 7`)
	p.see(`task is completed`)
	p.review("watched")
}

func TestBrowserFiltersSearchesCopiesAndExportsTheLog(t *testing.T) {
	p := inspectPage(t, serveTools(t, newGallery(t)))
	p.press("echo")
	for _, word := range []string{"first", "second"} {
		p.fill("text", word)
		p.press("Call Ctrl ↵")
		p.awaitTrue(`document.querySelector(".call pre")?.innerText === "` + word + `"`)
	}
	rows := `[...document.querySelectorAll(".row")].map((one) => one.querySelector(".way").title + " " + ` +
		`one.querySelector(".method").innerText).join()`
	p.fill("Filter by method, name or id", "tools/call")
	p.awaitTrue(rows + ` === "sent tools/call,received tools/call,sent tools/call,received tools/call"`)
	p.fill("Search in messages and headers", "second")
	p.awaitTrue(rows + ` === "sent tools/call,received tools/call"`)
	p.fill("Direction", "sent")
	p.awaitTrue(rows + ` === "sent tools/call"`)
	p.awaitTrue(`(document.querySelector(".row").click(), true)`)
	p.see(`(?i)mcp-method`)
	p.review("log")
	p.awaitTrue(`(Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void ` +
		`(window.copied = text) } }), true)`)
	for button, want := range map[string]string{"as parley": "parley call --json ", "as curl": "curl -sS -X POST"} {
		p.press(button)
		p.awaitTrue(`window.copied?.startsWith("` + want + `")`)
	}
	p.awaitTrue(`(() => { const old = URL.createObjectURL; URL.createObjectURL = (blob) => (blob.text().then((text) ` +
		`=> (window.saved = text)), old.call(URL, blob)); return true })()`)
	p.press("Export recording")
	p.awaitTrue(`window.saved?.includes("second") && window.saved.split("\n").filter(Boolean).every((line) => ` +
		`JSON.parse(line))`)
	p.press("HAR")
	p.awaitTrue(`window.saved?.startsWith("{") && JSON.parse(window.saved).log.version === "1.2"`)
	p.press("Clear")
	p.see(`0 messages`)
}

func TestBrowserLogsInStepByStep(t *testing.T) {
	url := startParley(t, `http://[^\s"]+/mcp`, "serve", "--addr", "127.0.0.1:0", "--auth", "dev")
	p := inspectPage(t, url)
	p.see(`requires a login`)
	p.press("Log in")
	p.see(`The login continues here|Scopes|Log in`)
	logIn := `(() => { const button = document.querySelector(".login button:not([type=button]):not(:disabled)"); ` +
		`button?.click(); return !!button })()`
	p.press("Client and redirect URI")
	p.fill("Client ID", "mine")
	p.review("client")
	p.awaitTrue(logIn)
	// without a registration
	p.awaitTrue(`!!document.querySelector("#login-page") && ` +
		`!document.querySelector(".login-steps").innerText.includes("RFC 7591")`)
	p.press("Cancel")
	p.see(`the login was cancelled`)
	p.fill("Client ID", "")
	redirect := "http://localhost:" + freePort(t)
	p.fill("Redirect URI, if it must match exactly", redirect+"/oauth/return")
	p.awaitTrue(logIn)
	p.awaitTrue(`!!document.querySelector("#login-page")`)
	p.see(`(?s)RFC 9728.*RFC 8414.*RFC 7591`)
	p.review("login")
	address, err := evaluate[string](p.tab, `document.querySelector("#login-page").href`)
	p.check(err)
	must.CheckThat(t, strings.HasPrefix(address, redirect+"/"),
		"the login page is %s, want it at %s", address, redirect)
	// The user logs in with another tab of the same browser.
	ctx, closeTab := chromedp.NewContext(p.ctx)
	defer closeTab()
	other := &tab{ctx: ctx}
	p.check(chromedp.Do(ctx, chromedp.Navigate(address)))
	p.check(other.shows(regexp.MustCompile(`(?i)allow`)))
	p.check(other.click("#allow"))
	p.check(other.shows(regexp.MustCompile(`Login complete`)))
	p.see(`logged in`)
	p.see(`Exchange the authorization code for tokens`)
	p.see(`connected`)
	p.press("Tools")
	p.press("greet")
	p.fill("name", "Ada")
	p.press("Call Ctrl ↵")
	p.see(`Hello, Ada`)
	page, err := evaluate[string](p.tab, "document.documentElement.innerText")
	p.check(err)
	must.CheckThat(t, !strings.Contains(page, "eyJ"), "the page shows a token")
}

func TestBrowserShowsTheLogWithoutAStall(t *testing.T) {
	p := inspectPage(t, serveTools(t, newGallery(t)))
	p.press("echo")
	p.fill("text", "again")
	// The page calls the tool until the log has 10,000 messages.
	p.awaitTrue(`(() => {
		window.total = () => Number(/^(\d+) messages/.exec(document.querySelector(".count").innerText)?.[1] ?? 0);
		return total() > 0;
	})()`)
	fill := `(async () => {
		const token = sessionStorage.getItem("parley-token");
		const name = document.querySelector(".servers .entry-name").innerText;
		const call = () => fetch("/api/servers/" + encodeURIComponent(name) + "/calls", { method: "POST", headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" }, body: JSON.stringify({ method: "tools/call", name: "echo", arguments: { text: "again" } }) });
		for (let i = 0; i < 30; i++) await Promise.all(Array.from({ length: 15 }, call));
		return total();
	})()`
	deadline := 60
	for n := 0; n < 10_000; deadline-- {
		must.That(t, deadline != 0, "the log has %d messages", n)
		ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
		var err error
		n, err = chromedp.Run(ctx, chromedp.Evaluate[int](fill, chromedp.EvalAwaitPromise))
		cancel()
		p.check(err)
	}
	for _, where := range []string{"0", "100_000", "1e9"} {
		p.awaitTrue(`(document.querySelector(".rows").scrollTop = ` + where + `, true)`)
		p.awaitTrue(`document.querySelectorAll(".row").length > 3`)
		nodes, err := evaluate[int](p.tab, `document.querySelector(".rows").querySelectorAll("*").length`)
		p.check(err)
		must.CheckThat(t, nodes <= 500, "at %s the log has %d elements", where, nodes)
	}
	p.see(`older dropped`)
	p.review("long")
}

func TestBrowserCompletesJSONFromTheSchema(t *testing.T) {
	p := inspectPage(t, serveTools(t, newGallery(t)))
	p.press("order")
	editor := `document.querySelector(".editor").shadowRoot`
	for _, test := range []struct{ text, want string }{
		{`{"`,
			`"customer"object, required,"items"list of object, required,"delivery"Pick up or Post, required,` +
				`"gift"boolean,"extras"list of choice`},
		{`{"items": [{"article": "`, `"lamp","chair","table"`},
		{`{"delivery": {"way": "post", "address": {"`, `"street"string, required,"city"string, required`},
	} {
		p.awaitTrue(`(() => {
			` + editor + `.querySelector(".cm-content").focus();
			document.execCommand("selectAll");
			document.execCommand("insertText", false, ` + "`" + test.text + "`" + `);
			return true;
		})()`)
		p.check(p.do(chromedp.KeyEvent(" ", func(k *input.DispatchKeyEventParams) { k.Modifiers = 2 })))
		var got string
		if !p.await(func() bool {
			var err error
			got, err = evaluate[string](p.tab, `[...`+editor+
				`.querySelectorAll(".cm-tooltip-autocomplete li")].map((one) => one.innerText.replaceAll("\n", `+
				`"")).join()`)
			return err == nil && got == test.want
		}) {
			t.Errorf("after %s the editor proposes %s, want %s", test.text, got, test.want)
		}
		p.check(p.do(chromedp.KeyEvent(kb.Escape)))
	}
}

func TestBrowserGetsPromptsAndWatchesResources(t *testing.T) {
	p := inspectPage(t, serveTools(t, demo.New("test")))
	p.press("Prompts")
	p.press("postcard")
	p.fill("city", "Os")
	p.awaitTrue(`!!document.querySelector('datalist option[value="Oslo"]')`)
	p.fill("city", "Oslo")
	p.press("Get the prompt Ctrl ↵")
	p.see(`(?s)user.*Oslo`)
	p.review("prompt")
	p.press("Resources")
	p.press("Notes")
	p.see(`demo://notes`)
	p.press("subscribed to changes")
	p.awaitTrue(`document.querySelector(".check input").checked`)
	p.press("Tools")
	p.press("note")
	p.fill("text", "remember")
	p.press("Call Ctrl ↵")
	p.awaitTrue(`document.querySelector(".call")?.dataset.state === "done"`)
	p.press("Resources")
	p.see(`has changed at`)
	p.press("Read again")
	p.awaitTrue(`document.querySelector(".call li")?.innerText === "remember"`)
	p.review("subscription")
}

func TestBrowserKeepsOtherOriginsOut(t *testing.T) {
	p := inspectPage(t, serveTools(t, newGallery(t)))
	p.see(`order`)
	page, token, _ := strings.Cut(p.address, "#token=")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	evil := &httptest.Server{Listener: listener,
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<title>evil</title><iframe src='" + page + "'></iframe>"))
		})}}
	evil.Start()
	defer evil.Close()
	p.check(p.navigate(evil.URL))
	for _, request := range []string{
		`fetch("` + page + `api/search?text=a", { headers: { Authorization: "Bearer ` + token + `" } })`,
		`fetch("` + page + `api/events")`,
		`fetch("` + page + `api/servers", { method: "POST", body: "{}" })`,
		`fetch("` + page + `", { mode: "no-cors" }).then(async (r) => { if (r.type === "opaque") throw 0; return r })`,
	} {
		ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](request+`.then(() => "a response", () => "nothing")`,
			chromedp.EvalAwaitPromise))
		cancel()
		p.check(err)
		must.CheckThat(t, got == "nothing", "%s: another origin gets %s", request, got)
	}
	p.awaitTrue(`(() => { try { return !frames[0].document } catch { return true } })()`)
	p.check(p.navigate(page + "#token=WRONG"))
	p.see(`its token is missing`)
	p.review("rejected")
}

func TestBrowserIsUsedWithTheKeyboard(t *testing.T) {
	p := inspectPage(t, serveTools(t, newGallery(t)))
	p.see(`order`)
	keys := func(text string) { p.check(p.do(chromedp.KeyEvent(text))) }
	// The page prevents the default action of a shortcut, and a browser sends no char event then. KeyEvent sends it,
	// and it could reach the field that has the focus by then. KeyEvent leaves out char events with a modifier.
	withoutChar := func(k *input.DispatchKeyEventParams) {
		if k.Type == kb.KeyChar {
			k.Modifiers = 2
		}
	}
	shortcut := func(key string) { p.check(p.do(chromedp.KeyEvent(key, withoutChar))) }
	shortcut("?")
	p.awaitTrue(`document.querySelector("dialog").open`)
	p.review("help")
	keys("\x1b")
	p.awaitTrue(`!document.querySelector("dialog").open`)
	shortcut("/")
	p.awaitTrue(`document.activeElement.matches(".filter")`)
	keys("ec")
	p.awaitTrue(`document.activeElement.value === "ec" && document.querySelectorAll(".split .entry").length === 1`)
	keys(kb.ArrowDown)
	p.awaitTrue(`document.activeElement.matches(".entry")`)
	keys("\r")
	p.awaitTrue(`document.querySelector("h2").checkVisibility() && document.querySelector(".detail h2").innerText ` +
		`=== "echo"`)
	shortcut("6")
	p.see(`Client settings`)
	p.review("connection")
	shortcut("l")
	p.awaitTrue(`!document.querySelector(".rows")`)
	shortcut("3")
	p.see(`Select a resource`)
}
