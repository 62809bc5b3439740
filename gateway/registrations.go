package gateway

import (
	"bytes"
	"encoding/json"
	"log/slog"
)

// registrations are the tools, the prompts, the resources or the templates of all
// servers, as they are registered with the gateway's server.
type registrations[E any] struct {
	kind       string                             // for the log
	most       int                                // number of entries of one server; 0 means no limit
	key        func(e *E) string                  // identifies e within its server
	register   func(server string, e *E) string   // registers e and returns its name or URI; "" if it cannot
	unregister func(name string)                  // the opposite of register
	byServer   map[string]map[string]registration // by server name, and key
}

// registration is one tool, prompt, resource or template.
type registration struct {
	name       string // as registered; empty if it could not be registered
	definition []byte
	attempted  bool // register was called
}

// update makes the registrations for a server match its list. It does not touch entries
// that have not changed, so clients receive no needless notifications and warnings are
// logged once.
func (r *registrations[E]) update(logger *slog.Logger, server string, list []E) {
	before := r.byServer[server]
	if r.most > 0 && len(list) > r.most {
		if len(before) < r.most { // else it was logged before
			logger.Warn(r.kind+"s ignored: the server has too many", "server", server, "number", len(list), "max", r.most)
		}
		list = list[:r.most]
	}
	now := make(map[string]registration, len(list))
	for i := range list {
		key := r.key(&list[i])
		definition, err := json.Marshal(&list[i])
		if err != nil {
			logger.Warn(r.kind+" not registered: it cannot be encoded", "server", server, r.kind, key, "error", err)
			continue
		}
		if old, ok := before[key]; ok && bytes.Equal(old.definition, definition) {
			now[key] = old
		} else if _, duplicate := now[key]; duplicate {
			logger.Warn(r.kind+" ignored: the server lists it twice", "server", server, r.kind, key)
		} else {
			now[key] = registration{definition: definition}
		}
	}
	for key, old := range before {
		if old.name != "" && now[key].name != old.name {
			r.unregister(old.name)
		}
	}
	for i := range list {
		key := r.key(&list[i])
		if e, ok := now[key]; ok && !e.attempted {
			e.name, e.attempted = r.register(server, &list[i]), true
			now[key] = e
		}
	}
	if r.byServer == nil {
		r.byServer = make(map[string]map[string]registration)
	}
	r.byServer[server] = now
}
