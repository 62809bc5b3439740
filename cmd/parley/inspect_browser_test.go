//go:build browser

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

// inspected is a page of parley inspect in a browser.
type inspectedPage struct {
	*tab
	t       *testing.T
	address string // with the token
}

// inspectPage runs parley inspect with arguments, and opens its page.
func inspectPage(t *testing.T, args ...string) *inspectedPage {
	t.Helper()
	start := startParley(t, `http://\S+/start/\S+`, append([]string{"inspect", "--print-url"}, args...)...)
	p := &inspectedPage{tab: browser(t), t: t}
	p.check(p.do(chromedp.EmulateViewport(1280, 800)))
	p.check(p.openFile(start))
	origin, _, _ := strings.Cut(start, "/start/")
	p.see(`\S`)
	token, err := evaluate[string](p.tab, `sessionStorage.getItem("parley-token")`)
	p.check(err)
	p.address = origin + "/#token=" + token
	return p
}

// openFile opens an address as the browser of a user does: by a file that redirects to it.
func (p *inspectedPage) openFile(address string) error {
	path := filepath.Join(p.t.TempDir(), "open.html")
	if err := os.WriteFile(path, []byte(`<meta http-equiv="refresh" content="0; url=`+address+`">`),
		0o600); err != nil {
		return err
	}
	return p.navigate("file://" + path)
}

// serveTools serves a server, and returns its URL.
func serveTools(t *testing.T, s *server.Server) string {
	t.Helper()
	s.Logger = slog.New(slog.DiscardHandler)
	served := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		_ = s.Shutdown(ctx)
		served.Close()
	})
	return served.URL
}

func (p *inspectedPage) check(err error) {
	p.t.Helper()
	if err != nil {
		p.shot("failure")
		text, _ := p.text()
		p.t.Fatalf("%v\n%s", err, text)
	}
}

// shot writes a screenshot to the directory of SCREENSHOTS, if that is set.
func (p *inspectedPage) shot(name string) {
	p.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	must.Check(p.t, err)
}

// size sets the width of the page, and whether the system prefers dark colours.
func (p *inspectedPage) size(width int64, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.check(p.do(chromedp.EmulateViewport(width, 800), chromedp.Func(func(ctx context.Context,
		t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
				Value: scheme}}})
		return err
	})))
}

// see waits until the text of the page matches.
func (p *inspectedPage) see(pattern string) {
	p.t.Helper()
	p.check(p.shows(regexp.MustCompile(pattern)))
}

// awaitTrue waits until a JavaScript expression is true.
func (p *inspectedPage) awaitTrue(expression string) {
	p.t.Helper()
	var err error
	if !p.await(func() bool { var ok bool; ok, err = evaluate[bool](p.tab, expression); return err == nil && ok }) {
		p.check(fmt.Errorf("not true in %v: %s: %v", waitLimit, expression, err))
	}
}

// press clicks the button, link, check box or radio button with a text.
func (p *inspectedPage) press(text string) {
	p.t.Helper()
	quoted, _ := json.Marshal(text)
	script := `(() => {
		const found = [...document.querySelectorAll("button, a, label, summary")].find((one) => one.checkVisibility() && (one.innerText.replace(/\s+/g, " ").trim() === TEXT || one.getAttribute("aria-label") === TEXT || one.querySelector(".entry-name")?.firstChild.textContent === TEXT) && !one.disabled);
		found?.click();
		return !!found;
	})()`
	p.awaitTrue(strings.ReplaceAll(script, "TEXT", string(quoted)))
}

// fill enters a value in the field with a label.
func (p *inspectedPage) fill(label, value string) {
	p.t.Helper()
	quotedLabel, _ := json.Marshal(label)
	quotedValue, _ := json.Marshal(value)
	script := `(() => {
		const label = [...document.querySelectorAll("label[for]")].find((one) => one.checkVisibility() && (one.querySelector(".name")?.innerText ?? one.innerText) === LABEL);
		const field = label ? document.getElementById(label.htmlFor) : document.querySelector('[aria-label="' + LABEL + '"]');
		if (!field) return false;
		field.focus();
		if (field instanceof HTMLSelectElement) field.value = [...field.options].find((one) => one.text === VALUE)?.value ?? "?";
		else field.value = VALUE;
		field.dispatchEvent(new Event("input", { bubbles: true }));
		field.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`
	p.awaitTrue(strings.NewReplacer("LABEL", string(quotedLabel), "VALUE", string(quotedValue)).Replace(script))
}

// orderSchema has nested objects, arrays, choices, defaults and alternatives.
const orderSchema = `{
  "type": "object",
  "required": ["customer", "items", "delivery"],
  "properties": {
    "customer": {"type": "object", "description": "Who pays", "required": ["name"], "properties": {
      "name": {"type": "string", "minLength": 1},
      "email": {"type": "string", "format": "email"}
    }},
    "items": {"type": "array", "minItems": 1, "maxItems": 5, "items": {"type": "object", "required": ["article", "quantity"], "properties": {
      "article": {"enum": ["lamp", "chair", "table"]},
      "quantity": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
    }}},
    "delivery": {"oneOf": [
      {"title": "Pick up", "type": "object", "required": ["way", "shop"], "properties": {"way": {"const": "pickup"}, "shop": {"enum": ["north", "south"]}}},
      {"title": "Post", "type": "object", "required": ["way", "address"], "properties": {"way": {"const": "post"}, "address": {"$ref": "#/$defs/address"}}}
    ]},
    "gift": {"type": "boolean"},
    "extras": {"type": "array", "uniqueItems": true, "items": {"enum": ["wrap", "card"]}}
  },
  "$defs": {"address": {"type": "object", "required": ["street", "city"], "properties": {"street": {"type": "string"}, "city": {"type": "string", "minLength": 2}}}}
}`

const gallery = "# Gallery\n\nA **bold** word, `code`, a [link](https://example.com/) and <script>document.title = " +
	"\"broken\"</script>.\n\n- one\n- two\n  - nested\n\n| name | size |\n|---|---|\n| cup | 3 |\n"

// noArguments is the schema of tools without arguments.
const noArguments = `{"type":"object"}`

// newGallery returns a server whose tools have every kind of argument and result.
func newGallery(t *testing.T) *server.Server {
	t.Helper()
	var picture bytes.Buffer
	must.Do(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 20))))
	wave := append([]byte("RIFF\x2c\x00\x00\x00WAVEfmt "+
		"\x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x08\x00\x00\x00"),
		bytes.Repeat([]byte{128}, 8)...)
	s := &server.Server{Name: "gallery", Version: "1"}
	html := appHTML(t, "gallery.html")
	register := func(tool mcp.Tool, result func(json.RawMessage) *mcp.CallToolResult) {
		err := s.RegisterTool(tool, func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return result(arguments), nil
		})
		must.Do(t, err)
	}
	text := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}
	}
	register(mcp.Tool{Name: "order", Title: "Order furniture", Description: "Order **furniture** for a customer.",
		InputSchema: json.RawMessage(orderSchema)},
		func(arguments json.RawMessage) *mcp.CallToolResult { return text("ordered " + string(arguments)) })
	register(mcp.Tool{Name: "echo",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
		func(arguments json.RawMessage) *mcp.CallToolResult {
			var in struct{ Text string }
			_ = json.Unmarshal(arguments, &in)
			return text(in.Text)
		})
	register(mcp.Tool{Name: "show", InputSchema: json.RawMessage(noArguments)},
		func(json.RawMessage) *mcp.CallToolResult {
			return &mcp.CallToolResult{
				StructuredContent: json.RawMessage(`{"cups":[{"name":"cup","size":3}],"open":true}`),
				Content: []mcp.Content{
					mcp.Text(gallery), mcp.Image(picture.Bytes(), "image/png"), mcp.Audio(wave, "audio/wav"),
					&mcp.ResourceLink{URI: "gallery://note", Name: "note", Title: "The note", MimeType: "text/plain"},
				},
			}
		})
	register(mcp.Tool{Name: "app", InputSchema: json.RawMessage(noArguments),
		Meta: mcp.Meta{"ui": json.RawMessage(`{"resourceUri":"ui://gallery/app.html"}`)}},
		func(json.RawMessage) *mcp.CallToolResult { return text("the result") })
	register(mcp.Tool{Name: "hidden", InputSchema: json.RawMessage(noArguments),
		Meta: mcp.Meta{"ui": json.RawMessage(`{"visibility":["model"]}`)}},
		func(json.RawMessage) *mcp.CallToolResult { return text("hidden") })
	server.AddResource(s, mcp.Resource{URI: "gallery://note", Name: "note", MimeType: "text/plain"},
		func(context.Context) (string, error) { return "Remember the milk.", nil })
	server.AddResource(s, mcp.Resource{URI: "ui://gallery/app.html", Name: "app",
		MimeType: "text/html;profile=mcp-app"}, func(context.Context) (string, error) { return html, nil })
	return s
}

// newWarehouse returns a server that has tools only, with long names and results.
func newWarehouse(t *testing.T) *server.Server {
	t.Helper()
	s := &server.Server{Name: "warehouse", Version: "1"}
	for i, name := range []string{"a_report", strings.Repeat("reconcile_the_stock_with_the_ledger_", 3), "z"} {
		tool := mcp.Tool{Name: name, InputSchema: json.RawMessage(noArguments)}
		err := s.RegisterTool(tool, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{
				StructuredContent: json.RawMessage(fmt.Sprintf(`{"tool": %d, "value": %q}`, i,
					strings.Repeat("long ", 1000))),
				Content: []mcp.Content{mcp.Text(strings.Repeat("a line\n", 300))},
			}, nil
		})
		must.Do(t, err)
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
	p.check(p.do(chromedp.MouseEvent(chromedp.MousePressed, 600, y, left),
		chromedp.MouseEvent(chromedp.MouseMoved, 600, 100, left),
		chromedp.MouseEvent(chromedp.MouseReleased, 600, 100, left)))
	// a third of the window
	p.awaitTrue(size("log") + ` === 266 && document.querySelector(".log").offsetHeight === 266`)
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

	// The page has asked for the list that the server has, once after each of the three times that it was loaded.
	p.fill("Filter by method, name or id", "/list")
	p.awaitTrue(`(() => {
		const methods = [...document.querySelectorAll(".row .method")].map((one) => one.innerText);
		return methods.filter((one) => one !== "subscriptions/listen").join() ===
			Array(6).fill("tools/list").join();
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

// The page shows the skills of a server, and the files that are those of the listed entry.
func TestBrowserVerifiesTheFilesOfSkills(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("refunds/SKILL.md", "---\nname: refunds\ndescription: Refund a customer\nlicense: MIT\n---\n\n## Ask first\n")
	write("refunds/scripts/pay.sh", "echo <b>paid</b>\n")
	root := must.Get(os.OpenRoot(dir))(t)
	t.Cleanup(func() { root.Close() })
	s := &server.Server{Name: "library"}
	must.Get(skills.Add(s, root.FS(), skills.Options{}))(t)
	p := inspectPage(t, serveTools(t, s))
	p.press("Skills")
	p.see(`Refund a customer`)
	p.see(`MIT`)
	p.press("SKILL.md")
	p.see(`verified`)
	p.see(`Ask first`)
	p.review("skills")
	write("refunds/scripts/pay.sh", "echo stolen!!!!!\n")
	p.press("scripts/pay.sh")
	p.see(`not verified`)
	p.see(`its digest is not that of the entry`)
}
