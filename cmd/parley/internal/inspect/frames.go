package inspect

import (
	"net/http"
	"net/url"
	"strings"
)

// appFrames returns the handler of the outer frames of MCP Apps. Their origin has nothing to protect: they contain pages of
// servers, whose content security policy is that of the frame. page is the origin of the page, the only one that may
// have these frames.
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
		h := w.Header()
		h.Set("Content-Type", contentTypes[name[len("frame"):]])
		h.Set("Content-Encoding", "gzip")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", framePolicy(r.URL.Query(), page))
		h.Set("Connection-Allowlist", frameConnections(r.URL.Query()))
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(file)
	})
}

// framePolicy returns the content security policy of a frame. The frame of the app inherits it. The query has the origins that the
// server declares for its page: connect, resource, frame and base.
func framePolicy(query url.Values, page string) string {
	connect, resource, frame, base := origins(query["connect"]), origins(query["resource"]), origins(query["frame"]), origins(query["base"])
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'unsafe-inline'" + resource,
		"style-src 'unsafe-inline'" + resource,
		"img-src data: blob:" + resource,
		"font-src data:" + resource,
		"media-src data: blob:" + resource,
		"connect-src" + orNone(connect),
		"frame-src" + orNone(frame),
		"base-uri" + orNone(base), "form-action 'none'", "frame-ancestors " + page,
	}, "; ")
}

// frameConnections returns the origins that a frame may connect to. Unlike the content security policy, this list
// limits WebRTC, too, which Chromium ends with the process of the frame: frame.js removes its interfaces from the page
// of the app, but not from the frames that this page creates, which inherit the list.
func frameConnections(query url.Values) string {
	list := "(response-origin"
	for _, name := range []string{"connect", "resource", "frame"} {
		for origin := range strings.FieldsSeq(origins(query[name])) {
			list += ` "` + origin + `"`
		}
	}
	return list + ")"
}

func orNone(list string) string {
	if list == "" {
		return " 'none'"
	}
	return list
}

// maxOrigins limits the origins of one kind that a server may declare.
const maxOrigins = 32

// origins returns the valid origins of a list, each after a space: https or wss, a host, which may begin with *., and
// a port.
func origins(list []string) string {
	var b strings.Builder
	for i, text := range list {
		u, err := url.Parse(text)
		if i == maxOrigins || err != nil {
			break
		}
		host := strings.TrimPrefix(u.Host, "*.")
		if u.Scheme != "https" && u.Scheme != "wss" || text != u.Scheme+"://"+u.Host || host == "" || strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-.:") != "" {
			continue
		}
		b.WriteString(" " + text)
	}
	return b.String()
}
