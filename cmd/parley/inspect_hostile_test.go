//go:build browser

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/parley-mcp/parley/internal/must"
)

// canary counts the connections and packets that reach it: hostile pages try to send it what they know.
type canary struct {
	tcp         net.Listener
	udp         net.PacketConn
	connections atomic.Int64
}

// listenForPages starts a canary. It answers HTTP requests, so that a request that reaches it also succeeds.
func listenForPages(t *testing.T) *canary {
	t.Helper()
	c := &canary{tcp: must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)}
	c.udp = must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	served := &httptest.Server{Listener: c.tcp, Config: &http.Server{
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				c.connections.Add(1)
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c.connections.Add(1) // one more, because a browser uses a connection again
			w.Header().Set("Access-Control-Allow-Origin", "*")
		}),
	}}
	served.Start()
	t.Cleanup(func() { served.Close(); _ = c.udp.Close() })
	return c
}

func (c *canary) address() string { return c.tcp.Addr().String() }

// count returns the number of connections.
func (c *canary) count() int { return int(c.connections.Load()) }

// packet waits until a packet arrives.
func (c *canary) packet(limit time.Duration) error {
	_ = c.udp.SetReadDeadline(time.Now().Add(limit))
	_, _, err := c.udp.ReadFrom(make([]byte, 1<<10))
	return err
}

// awaitSilence waits until the page does not answer: it was left, or the browser has ended its process.
const awaitSilence = `(() => {
	const frame = document.querySelector(".frame iframe");
	if (window.pinged !== frame) {
		window.pinged = frame;
		window.pong = Date.now();
		addEventListener("message", (event) => { if (event.data?.id === "alive") window.pong = Date.now() });
	}
	frame.contentWindow.postMessage({ jsonrpc: "2.0", id: "alive", method: "ping" }, new URL(frame.src).origin);
	return Date.now() - window.pong > 1000;
})()`

// Each page of testdata/apps/hostile attacks. Without a sandbox, its attack reaches the canary; in the inspector it
// reaches nothing, and the inspector remains usable.
func TestBrowserContainsHostilePages(t *testing.T) {
	inside, outside := listenForPages(t), listenForPages(t)
	files := must.Get(filepath.Glob("testdata/apps/hostile/*.html"))(t)
	s, other := newStage(t), newStage(t)
	other.addPage("secret", "asks.html")
	direct := http.NewServeMux()
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".html")
		names = append(names, name)
		s.addPage(name, "hostile/"+name+".html", "CANARY", inside.address(), "STUN", inside.udp.LocalAddr().String())
		html := appHTML(t, "hostile/"+name+".html", "CANARY", outside.address(), "STUN", outside.udp.LocalAddr().String())
		direct.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(html))
		})
	}
	p := inspectPage(t, serveTools(t, s.Server), serveTools(t, other.Server))
	downloads := t.TempDir()
	p.check(p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
			Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: downloads})
		return err
	})))
	for _, name := range names {
		p.run(name)
		switch {
		case name == "flood":
			p.see(`The page is closed: it sent more than 1000 messages in a second`)
		case strings.HasPrefix(name, "leave-"), name == "rtc", name == "busy":
			p.see(`leaves|reached: nothing`)
			p.awaitTrue(awaitSilence)
		default:
			p.see(`reached: nothing`)
		}
		n := inside.count()
		must.That(t, n == 0, "%s: %d connections arrive", name, n)
		// The inspector works, and shows nothing of the page that it has left.
		p.press("echo")
		p.press("Call Ctrl ↵")
		p.awaitTrue(`document.querySelector(".call pre")?.innerText === "echo " && !window.polluted && ` +
			`!document.querySelector(".app, dialog[open]")`)
		p.framesLeave()
	}
	for _, text := range append(s.texts(), other.texts()...) {
		must.CheckThat(t, text == "", "a page calls a tool with %q", text)
	}
	found := must.Get(os.ReadDir(downloads))(t)
	must.CheckThat(t, len(found) == 0, "the pages save %v", found)
	stored, err := evaluate[string](p.tab,
		`JSON.stringify([Object.keys(localStorage), Object.keys(sessionStorage), document.cookie])`)
	p.check(err)
	must.CheckThat(t, stored == `[[],["parley-token"],""]`, "the storage of the inspector has %s", stored)

	// The attacks are real.
	served := httptest.NewServer(direct)
	defer served.Close()
	tab := browser(t)
	for _, name := range names {
		switch name {
		case "storage", "dialogs", "messages", "flood", "busy", "leave-data": // they do not attack the network
			continue
		}
		before := outside.count()
		_ = tab.navigate(served.URL + "/" + name) // a page that leaves aborts this
		if name == "rtc" {
			must.Do(t, outside.packet(waitLimit))
		} else if !tab.await(func() bool { return outside.count() > before }) {
			t.Errorf("%s reaches nothing without a sandbox either", name)
		}
	}
	if err := inside.packet(time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a page has connected with WebRTC: %v", err)
	}
	n := inside.count()
	must.CheckThat(t, n == 0, "%d connections arrive in the end", n)
}
