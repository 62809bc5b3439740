//go:build browser

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// pageType is the type of the pages of MCP Apps.
const pageType = "text/html;profile=mcp-app"

// appHTML returns a page of testdata/apps. replace has pairs of words in the page and their texts.
func appHTML(t *testing.T, name string, replace ...string) string {
	t.Helper()
	read := func(name string) string {
		return string(must.Get(os.ReadFile(filepath.Join("testdata/apps", name)))(t))
	}
	return strings.NewReplacer(append(replace, "CLIENT", read("client.js"))...).Replace(read(name))
}

// stage is a server whose tools have pages, and records the texts with which its pages call echo.
type stage struct {
	*server.Server
	t *testing.T

	mu     sync.Mutex
	echoed []string
}

// newStage returns a stage without pages.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Server: &server.Server{Name: "stage", Version: "1"}, t: t}
	echo := func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var in struct{ Text string }
		_ = json.Unmarshal(arguments, &in)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.echoed = append(s.echoed, in.Text)
		return result("echo " + in.Text), nil
	}
	for name, ui := range map[string]string{"echo": ``, "free": `{"visibility":["app"]}`,
		"hidden": `{"visibility":["model"]}`, "wrong": `{"visibility":"app"}`} {
		tool := mcp.Tool{Name: name, InputSchema: json.RawMessage(noArguments)}
		if ui != "" {
			tool.Meta = mcp.Meta{"ui": json.RawMessage(ui)}
		}
		must.Do(t, s.RegisterTool(tool, echo))
	}
	server.AddStatic(s.Server, mcp.Resource{URI: "stage://note", Name: "note", MimeType: "text/plain"}, "a note")
	return s
}

func result(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}
}

// texts returns the texts with which pages have called tools.
func (s *stage) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.echoed)
}

// add adds a tool and its page.
func (s *stage) add(name, html string, call func(context.Context) (*mcp.CallToolResult, error)) {
	s.t.Helper()
	uri := "ui://stage/" + name
	must.Do(s.t, s.RegisterTool(mcp.Tool{Name: name, InputSchema: json.RawMessage(noArguments),
		Meta: mcp.Meta{"ui": must.Get(json.Marshal(map[string]string{"resourceUri": uri}))(s.t)}},
		func(ctx context.Context, _ json.RawMessage) (*mcp.CallToolResult, error) { return call(ctx) }))
	server.AddStatic(s.Server, mcp.Resource{URI: uri, Name: name, MimeType: pageType}, html)
}

// addPage adds a tool and its page, which is a file of testdata/apps.
func (s *stage) addPage(name, file string, replace ...string) {
	s.t.Helper()
	s.add(name, appHTML(s.t, file, replace...),
		func(context.Context) (*mcp.CallToolResult, error) { return result(name + " is called"), nil })
}

// run calls a tool.
func (p *inspectedPage) run(tool string) {
	p.t.Helper()
	p.press(tool)
	p.press("Call Ctrl ↵")
}

// framesLeave waits until the frames of pages that are not shown are gone.
func (p *inspectedPage) framesLeave() {
	p.t.Helper()
	p.awaitTrue(`!document.querySelector("#leaving iframe")`)
}

func TestBrowserRunsAppsInASandbox(t *testing.T) {
	one, other := serveTools(t, newGallery(t)), serveTools(t, newGallery(t))
	p := inspectPage(t, one, other)
	p.press(strings.TrimPrefix(other, "http://"))
	p.awaitTrue(`document.querySelectorAll(".dot.ready").length === 2`)
	p.press(strings.TrimPrefix(one, "http://"))
	p.press("app")
	p.press("Call Ctrl ↵")
	p.press("Allow this tool for this page")
	// after the response to its call
	p.see(`(?s)Context for the model.*a context.*Message of the user.*a message.*Log message, info.*a log message`)
	p.fill("Search in messages and headers", "app: the result, sealed")
	p.see(`2 of \d+ messages`)

	// The page of the tool fills the window, follows the colours, and learns that it ends.
	p.see(`(?s)now fullscreen, light.*instead of pip fullscreen`) // the mode stays
	p.awaitTrue(`document.querySelector(".app iframe").getBoundingClientRect().height > 300 && ` +
		`document.querySelector(".app").matches(":popover-open")`)
	p.shot("app-window")
	p.press("Exit full window")
	p.see(`(?s)now inline, light.*instead of pip inline`)
	p.awaitTrue(`document.querySelector(".app iframe").offsetHeight === 123`)
	p.fill("Colours", "Dark")
	p.see(`now inline, dark`)
	p.fill("Colours", "System colours")
	p.see(`hidden: the tool hidden is not for pages`)
	p.review("app")

	// A call of the app that arrives when the user has selected another server is for the server of the app.
	p.awaitTrue(`(() => {
		const frame = document.querySelector(".app iframe");
		[...document.querySelectorAll(".servers .entry")][1].click();
		const params = { name: "echo", arguments: { text: "late" } };
		dispatchEvent(new MessageEvent("message", { source: frame.contentWindow, origin: new URL(frame.src).origin,
			data: { jsonrpc: "2.0", id: 9, method: "tools/call", params } }));
		return true;
	})()`)
	p.press("Calls")
	p.awaitTrue(`(() => { const [first] = document.querySelectorAll(".column .entry"); return ` +
		`first.innerText.startsWith("echo") && first.innerText.includes("` + strings.TrimPrefix(one, "http://") +
		`") })()`)
}

// A user votes in the page of examples/poll.
func TestBrowserVotesInThePageOfTheExample(t *testing.T) {
	program := filepath.Join(t.TempDir(), "poll")
	build := exec.Command("go", "build", "-o", program, "./examples/poll")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	url := startProgram(t, `http://127\.0\.0\.1:\d+/mcp`, exec.Command(program, "-http", "127.0.0.1:0"))
	p := inspectPage(t, url)
	p.run("poll")
	p.awaitTrue(`document.querySelector(".app iframe")?.offsetHeight > 100 && ` +
		`document.querySelector(".app iframe").offsetHeight !== 240`) // the page has told its size
	p.shot("poll")
	// The browser finds a frame of another process at a point some time after the layout has changed.
	if !p.await(func() bool {
		at, err := evaluate[[]float64](p.tab, `(() => {
			if (document.querySelector(".app .question")) return [];
			const frame = document.querySelector(".app iframe");
			frame.scrollIntoView({ block: "center" });
			const { x, y } = frame.getBoundingClientRect();
			return [x + frame.clientLeft + 50, y + frame.clientTop + 60]; // the first option
		})()`)
		p.check(err)
		if len(at) > 0 {
			p.check(p.do(chromedp.MouseClickXY(at[0], at[1])))
		}
		return len(at) == 0
	}) {
		t.Error("a click in the page does not lead to a question")
	}
	p.see(`(?s)wants to call vote on.*"Tea"`)
	p.press("Allow once")
	c, err := client.Dial(t.Context(), client.URL(url))
	must.Do(t, err)
	defer c.Close()
	if !p.await(func() bool {
		poll, err := client.CallTool[json.RawMessage](t.Context(), c, "poll", nil)
		return err == nil && strings.Contains(string(poll), `{"name":"Tea","votes":1}`)
	}) {
		t.Error("the vote does not reach the server")
	}
}

func TestBrowserAsksBeforeAPageCallsATool(t *testing.T) {
	s, other := newStage(t), newStage(t)
	s.addPage("asks", "asks.html")
	other.addPage("secret", "asks.html")
	p := inspectPage(t, serveTools(t, s.Server), serveTools(t, other.Server))
	p.run("asks")
	p.see(`(?s)wants to call echo on.*"once"`)
	p.review("app-asks")
	// The buttons that allow are disabled at first: a click could be one on the page, which the question moves.
	p.awaitTrue(`(() => {
		const hasAllow = (one) => one.innerText.startsWith("Allow");
		window.early = [];
		new MutationObserver(() => {
			const card = document.querySelector(".app .question");
			if (card && !card.seen) {
				card.seen = true;
				early.push(...[...card.querySelectorAll("button")].filter(hasAllow).map((one) => one.disabled));
			}
		}).observe(document.querySelector(".app"), { childList: true, subtree: true });
		return true;
	})()`)
	p.press("Allow once")
	p.see(`echo {'text':'once'}: echo once`)
	p.see(`"denied"`)
	p.press("Deny")
	p.see(`echo {'text':'denied'}: error -32000: the user denied the request`)
	p.see(`"allowed"`)
	p.press("Allow this tool for this page")
	p.see(`(?s)echo {'text':'allowed'}: echo allowed.*echo {'text':'again'}: echo again`)
	p.see(`hidden {}: error -32000: the tool hidden is not for pages`)
	p.see(`wrong {}: error -32000: the tool wrong is not for pages`)
	p.see(`secret {}: error -32000: the page's server has no tool secret`)
	p.see(`tools: (asks|echo|free|,)+"`)
	p.see(`note: a note`)
	p.see(`(?s)wants to call free.*15 more requests wait`) // one that the page has cancelled is not among them
	p.see(`'i':19}: error -32000: 16 requests are already in flight`)
	p.awaitTrue(`early.length >= 6 && early.every(Boolean)`)
	p.press("Close the page")
	p.see(`The page is closed`)
	p.framesLeave()
	if got, want := s.texts(), []string{"once", "allowed", "again"}; !slices.Equal(got, want) {
		t.Errorf("the tools of the server are called with %q, want %q", got, want)
	}
	got := other.texts()
	must.CheckThat(t, got == nil, "the tools of another server are called with %q", got)

	// Permissions end with the page.
	p.press("Open the page again")
	p.see(`(?s)wants to call echo on.*"once"`)
}

// A page is shown during the call. It receives the arguments and the outcome, after it is initialized and once.
func TestBrowserTellsAPageTheOutcomeOfItsCall(t *testing.T) {
	s := newStage(t)
	html := appHTML(t, "order.html")
	proceed := make(chan struct{})
	for name, call := range map[string]func(context.Context) (*mcp.CallToolResult, error){
		"quick": func(context.Context) (*mcp.CallToolResult, error) { return result("quick result"), nil },
		"wrongly": func(context.Context) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("a tool error")}, IsError: true}, nil
		},
		"slow": func(ctx context.Context) (*mcp.CallToolResult, error) {
			select {
			case <-proceed:
				return result("slow result"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		"broken": func(context.Context) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "it is broken"}
		},
	} {
		s.add(name, html, call)
	}
	const input = `ui/notifications/tool-input,ui/notifications/tool-`
	p := inspectPage(t, serveTools(t, s.Server))
	p.run("quick")
	p.see(`(?s)early: ".*input {'arguments':{}}.*result quick result, false, after ` + input + `result"`)
	p.run("wrongly")
	p.see(`result a tool error, true, after ` + input + `result"`)
	p.run("slow")
	p.see(`input {'arguments':{}}`)
	p.press("Cancel the call")
	p.see(`cancelled: .*, after ` + input + `cancelled"`)
	p.press("Call Ctrl ↵")
	p.see(`(?s)running.*input {'arguments':{}}`)
	close(proceed)
	p.see(`result slow result, false, after ` + input + `result"`)
	p.run("broken")
	p.see(`cancelled: .*it is broken.*, after ` + input + `cancelled"`)
}

// A page is told before its frame goes, for any reason, and may call tools until it has responded.
func TestBrowserTellsPagesThatTheyEnd(t *testing.T) {
	s, other := newStage(t), newStage(t)
	for _, mode := range []string{"asks", "silent", "plain"} {
		s.addPage(mode, "ends.html")
	}
	one := serveTools(t, s.Server)
	p := inspectPage(t, one, serveTools(t, other.Server))
	saved := func(reason string) {
		t.Helper()
		want := []string{"ready", "saved: " + reason}
		if !p.await(func() bool { return slices.Equal(s.texts(), want) }) {
			t.Errorf("the page calls %q, want %q", s.texts(), want)
		}
		p.framesLeave()
		s.mu.Lock()
		s.echoed = nil
		s.mu.Unlock()
	}
	begin := func(tool string) {
		t.Helper()
		p.run(tool)
		p.press("Allow this tool for this page")
	}
	const elsewhere = "the inspector shows something else"
	for name, leave := range map[string]func(){
		"another tool": func() { p.press("echo") },
		"another call": func() { p.press("Call Ctrl ↵") },
		"another view": func() { p.press("Prompts"); p.press("Tools") },
		"another server": func() {
			p.awaitTrue(`(document.querySelectorAll(".servers .entry")[1].click(), true)`)
			p.awaitTrue(`!document.querySelector(".app")`)
			p.press(strings.TrimPrefix(one, "http://"))
		},
	} {
		begin("plain")
		p.see(`Log message, info`)
		t.Log(name)
		leave()
		saved(elsewhere)
		p.press("echo")
		p.framesLeave()
	}
	begin("plain")
	p.see(`Log message, info`)
	p.press("Close the page")
	p.see(`(?s)The page is closed.*ends: the user has closed it`)
	saved("the user has closed it")
	p.review("app-closed")
	begin("asks")
	p.see(`(?s)The page is closed.*ends: the page asked for it`)
	saved("the page asked for it")

	// The end of the connection is the end of the page, which cannot call tools then.
	begin("plain")
	p.see(`Log message, info`)
	p.awaitTrue(`(() => {
		addEventListener("message", ({ data }) => { if (data.id === "teardown") window.responded = true });
		const server = encodeURIComponent(document.querySelector(".servers .entry-name").innerText);
		const headers = { Authorization: "Bearer " + sessionStorage.getItem("parley-token") };
		fetch("/api/servers/" + server + "/disconnect", { method: "POST", headers });
		return true;
	})()`)
	p.awaitTrue(`window.responded`)
	p.framesLeave()
	p.press("Connection")
	p.press("Connect")
	p.press("Tools")

	// A page that does not respond goes all the same.
	begin("silent")
	p.see(`Log message, info`)
	p.press("echo")
	p.framesLeave()
}

func TestBrowserOpensLinksAndSavesFilesOfPagesWhenTheUserAllows(t *testing.T) {
	c := listenForPages(t)
	s := newStage(t)
	s.addPage("files", "files.html", "CANARY", c.address())
	p := inspectPage(t, serveTools(t, s.Server))
	p.awaitTrue(`(() => {
		window.saved = [];
		const blobs = new Map();
		const create = URL.createObjectURL;
		URL.createObjectURL = (blob) => { const url = create.call(URL, blob); blobs.set(url, blob); return url };
		HTMLAnchorElement.prototype.click = function () {
			blobs.get(this.href).text().then((text) => saved.push(this.download + ": " + text + blobs.get(this.href).type));
		};
		return true;
	})()`)
	p.run("files")
	p.see(`script: error -32000: the URL must begin with http`)
	p.see(`(?s)wants to open a link.*` + c.address() + `/refused`)
	p.review("app-link")
	p.press("Decline")
	p.see(`link: error -32000: the user denied the request`)
	p.see(`/opened`)
	n := c.count()
	must.CheckThat(t, n == 0, "%d connections before the user opens a link", n)
	p.awaitTrue(`document.querySelector(".app .question a")?.target === "_blank" && ` +
		`document.querySelector(".app .question a").rel === "noopener noreferrer"`)
	p.check(p.click(".app .question a"))
	p.see(`link: done`)
	must.CheckThat(t, p.await(func() bool { return c.count() > 0 }), "the link is not opened")
	p.see(`(?s)wants to save 4 files.*export.csv`)
	p.review("app-files")
	p.press("Save")
	p.see(`files: done`)
	p.awaitTrue(`saved.sort().join("; ") === "_._export.csv: a,bapplication/octet-stream; ` +
		`_NUL.txt: deviceapplication/octet-stream; file: dotsapplication/octet-stream; ` +
		`note: a noteapplication/octet-stream"`)
	p.see(`wants to save a file`)
	p.press("Deny")
	p.see(`refused: error -32000: the user denied the request`)
	opened := c.count()
	p.press("Save")
	p.see(`missing: error -32000`)
	n = c.count()
	must.CheckThat(t, n == opened, "%d connections for a file that only the server may have", n-opened)
}

func TestBrowserShowsAPageWithTheSandboxThatItDeclares(t *testing.T) {
	s := newStage(t)
	html := appHTML(t, "sandbox.html")
	const one, two = `{"csp":{"connectDomains":["https://one.example"]},"permissions":{"camera":{}}}`,
		`{"csp":{"resourceDomains":["https://two.example","http://plain.example"]},"prefersBorder":false}`
	tests := []struct {
		name, mime     string
		list, contents string // the metadata
		tool           string
		want           string
	}{
		{name: "bare", mime: pageType, want: `reaches no other origin(?s:.*)sandbox: {'csp':{},'permissions':{}}`},
		{name: "listed", mime: pageType, list: one,
			want: `sends data to https://one.example\.(?s:.*)sandbox: ` +
				`{'csp':{'connectDomains':\['https://one.example'\]},'permissions':{}}`},
		{name: "read", mime: `text/html; charset=utf-8; profile="mcp-app"`, list: one, contents: two,
			want: `loads files from https://two.example\. Not allowed(?s:.*): http://plain.example(?s:.*)sandbox: ` +
				`{'csp':{'resourceDomains':\['https://two.example'\]},'permissions':{}}`},
		{name: "flat", mime: pageType, contents: `{}`, list: one,
			tool: `{"ui/resourceUri":"ui://stage/flat","ui":{"visibility":["model","app"]}}`, want: `sandbox: {'csp':{}`},
		{name: "html", mime: "text/html", want: `must have the type text/html;profile=mcp-app, not text/html`},
		{name: "profile", mime: "text/html;profile=other", want: `must have the type`},
		{name: "plain", mime: pageType, tool: `{"ui":{"resourceUri":"stage://note"}}`, want: `plain is called`},
	}
	for _, test := range tests {
		uri := "ui://stage/" + test.name
		tool := mcp.Tool{Name: test.name, InputSchema: json.RawMessage(noArguments)}
		if test.tool == "" {
			test.tool = `{"ui":{"resourceUri":"` + uri + `"}}`
		}
		must.Do(t, json.Unmarshal([]byte(test.tool), &tool.Meta))
		must.Do(t, s.RegisterTool(tool, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return result(test.name + " is called"), nil
		}))
		meta := func(ui string) mcp.Meta {
			if ui == "" {
				return nil
			}
			return mcp.Meta{"ui": json.RawMessage(ui)}
		}
		must.Do(t, s.RegisterResource(mcp.Resource{URI: uri, Name: test.name, MimeType: test.mime,
			Meta: meta(test.list)}, func(context.Context, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: uri, MimeType: test.mime, Text: html,
				Meta: meta(test.contents)}}}, nil
		}))
	}
	p := inspectPage(t, serveTools(t, s.Server))
	for _, test := range tests {
		p.run(test.name)
		p.see(test.want)
		if test.name == "read" {
			p.review("app-reach")
		}
	}
	p.awaitTrue(`!document.querySelector(".app")`) // plain, the last one, names a resource that is no page
}
