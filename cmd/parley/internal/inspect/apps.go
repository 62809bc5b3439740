package inspect

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// appOrigins are the origins with which a page of MCP Apps may exchange data, as a resource declares them in
// _meta.ui.csp.
type appOrigins struct {
	Connect  []string `json:"connectDomains,omitempty"`
	Resource []string `json:"resourceDomains,omitempty"`
	Frame    []string `json:"frameDomains,omitempty"`
	Base     []string `json:"baseUriDomains,omitempty"`
}

// each calls change with the name of each kind in the query of a frame.
func (o *appOrigins) each(change func(name string, list *[]string)) {
	change("connect", &o.Connect)
	change("resource", &o.Resource)
	change("frame", &o.Frame)
	change("base", &o.Base)
}

// appFrame is the outer frame of a page: its address, and the declared origins that its policy allows.
type appFrame struct {
	Address string     `json:"address"`
	Allowed appOrigins `json:"allowed"`
}

// newFrame returns the frame for a page that declares origins.
func (h *hub) newFrame(_ *http.Request, declared appOrigins) (appFrame, error) {
	query := make(url.Values)
	declared.each(func(name string, list *[]string) {
		*list = validOrigins(*list)
		query[name] = *list
	})
	return appFrame{h.hello.Apps + "/?" + query.Encode(), declared}, nil
}

// appFrames returns the handler of the outer frames of MCP Apps. Their origin has nothing to protect: they contain
// pages of servers, whose content security policy is that of the frame. page is the origin of the page, the only one
// that may have these frames.
func appFrames(host, page string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "frame.html"
		}
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
		var o appOrigins
		query := r.URL.Query()
		o.each(func(name string, list *[]string) { *list = validOrigins(query[name]) })
		h := w.Header()
		h.Set("Content-Type", contentTypes[name[len("frame"):]])
		h.Set("Content-Encoding", "gzip")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", o.policy(page))
		h.Set("Connection-Allowlist", o.connections())
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=(), clipboard-write=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-DNS-Prefetch-Control", "off")
		_, _ = w.Write(file)
	})
}

// policy returns the content security policy of a frame, which the frame of the app inherits.
func (o *appOrigins) policy(page string) string {
	resources := strings.Join(append([]string{""}, o.Resource...), " ")
	orNone := func(list []string) string {
		if len(list) == 0 {
			return " 'none'"
		}
		return " " + strings.Join(list, " ")
	}
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'unsafe-inline'" + resources,
		"style-src 'unsafe-inline'" + resources,
		"img-src data: blob:" + resources,
		"font-src data:" + resources,
		"media-src data: blob:" + resources,
		"connect-src" + orNone(o.Connect),
		"frame-src" + orNone(o.Frame),
		"base-uri" + orNone(o.Base), "form-action 'none'", "frame-ancestors " + page,
	}, "; ")
}

// connections returns the origins that a frame may connect to. Unlike the content security policy, this list limits
// WebRTC, too, which Chromium ends with the process of the frame: frame.js removes its interfaces from the page of the
// app, but not from the frames that this page creates, which inherit the list.
func (o *appOrigins) connections() string {
	list := "(response-origin"
	for _, origin := range slices.Concat(o.Connect, o.Resource, o.Frame) {
		list += ` "` + origin + `"`
	}
	return list + ")"
}

// maxOrigins limits the origins of one kind that a server may declare.
const maxOrigins = 32

// validOrigins returns the valid origins of a list: https or wss, a host, which may begin with *., and a port.
func validOrigins(list []string) []string {
	var valid []string
	for _, text := range list[:min(len(list), maxOrigins)] {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		host := strings.ToLower(strings.TrimPrefix(u.Host, "*."))
		if (u.Scheme == "https" || u.Scheme == "wss") && text == u.Scheme+"://"+u.Host && host != "" &&
			strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.:") == "" {
			valid = append(valid, text)
		}
	}
	return valid
}
