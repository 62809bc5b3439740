//go:build browser

package main

import (
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/parley-mcp/parley/server"
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
	if err := os.WriteFile(path, []byte(`<meta http-equiv="refresh" content="0; url=`+address+`">`), 0o600); err != nil {
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
	if err != nil {
		p.t.Error(err)
	}
}

// size sets the width of the page, and whether the system prefers dark colours.
func (p *inspectedPage) size(width int64, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.check(p.do(chromedp.EmulateViewport(width, 800), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
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
