package inspect

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/apps"
)

// eachOrigins calls change with the name of each kind of origins in the query of a frame.
func eachOrigins(o *apps.CSP, change func(name string, list *[]string)) {
	change("connect", &o.Connect)
	change("resource", &o.Resource)
	change("frame", &o.Frame)
	change("base", &o.Base)
}

// appFrame is the outer frame of a page: its address, and the declared origins that it may reach.
type appFrame struct {
	Address string   `json:"address"`
	Allowed apps.CSP `json:"allowed"`
}

// newFrame returns the frame for a page that declares origins.
func (h *hub) newFrame(_ *http.Request, declared apps.CSP) (appFrame, error) {
	query, allowed := make(url.Values), declared.Valid()
	eachOrigins(&allowed, func(name string, list *[]string) { query[name] = *list })
	return appFrame{h.hello.Apps + "/?" + query.Encode(), allowed}, nil
}

// appFrames returns the handler of the outer frames of MCP Apps. Their origin has nothing to protect: they contain
// pages of servers, with the content security policy of the frame. page is the origin of the page, the only one that
// may have these frames.
func appFrames(host, page string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "frame.html")
		switch {
		case r.Host != host: // DNS rebinding
			http.Error(w, "the Host header must name the inspector", http.StatusForbidden)
			return
		case r.Method != http.MethodGet || name != "frame.html" && name != "frame.js":
			http.NotFound(w, r)
			return
		}
		file, err := dist.ReadFile("dist/" + name + ".gz")
		if err != nil {
			http.NotFound(w, r)
			return
		}
		var o apps.CSP
		query := r.URL.Query()
		eachOrigins(&o, func(name string, list *[]string) { *list = query[name] })
		o = o.Valid()
		h := w.Header()
		h.Set("Content-Type", contentTypes[name[len("frame"):]])
		h.Set("Content-Encoding", "gzip")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", o.Policy()+"; frame-ancestors "+page)
		h.Set("Connection-Allowlist", connections(o))
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=(), clipboard-write=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-DNS-Prefetch-Control", "off")
		_, _ = w.Write(file)
	})
}

// connections returns the origins that a frame may connect to. Unlike the content security policy, this list limits
// WebRTC, too, which Chromium ends with the process of the frame: frame.js removes its interfaces from the page of the
// app, but not from the frames that this page creates, which inherit the list.
func connections(o apps.CSP) string {
	list := "(response-origin"
	for _, origin := range slices.Concat(o.Connect, o.Resource, o.Frame) {
		list += ` "` + origin + `"`
	}
	return list + ")"
}
