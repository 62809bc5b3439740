package gateway

import (
	"bytes"
	"encoding/json"
	"log/slog"
)

// registrations are the tools, the prompts, the resources or the templates of all
// servers, as they are registered with the gateway's server.
type registrations[E any] struct {
	most       int                                    // number of entries of one server; 0 means no limit
	kind       string                                 // for the log
	key        func(e *E) string                      // identifies e within its server
	register   func(server, name string, e *E) string // registers e and returns its name or URI; "" if it cannot
	unregister func(name string)                      // the opposite of register
	byServer   map[string][]*registration[E]          // in the order of the server's list
	byName     map[string]*registration[E]            // by the name that it has, or that was tried for it
}

// registration is one tool, prompt, resource or template.
type registration[E any] struct {
	entry      E
	key        string
	definition []byte
	want       string // the name or URI that the entry is to have at the gateway
	tried      string // the name or URI that register was called with; empty if it was not
	name       string // as registered; empty if it could not be registered
	wantUI     string // the URI of the user interface of a tool, if it has one
	ui         string // wantUI when register was called
}

// set replaces the entries of a server and unregisters those that it does not list any
// more. It does not touch entries that have not changed, so clients receive no needless
// notifications and warnings are logged once.
func (r *registrations[E]) set(logger *slog.Logger, server string, list []E) {
	if r.most > 0 && len(list) > r.most {
		if len(r.byServer[server]) < r.most { // else it was logged before
			logger.Warn(r.kind+"s ignored: the server has too many", "server", server, "number", len(list), "max", r.most)
		}
		list = list[:r.most]
	}
	before := make(map[string]*registration[E])
	for _, e := range r.byServer[server] {
		before[e.key] = e
	}
	seen := make(map[string]bool, len(list))
	now := make([]*registration[E], 0, len(list))
	for i := range list {
		key := r.key(&list[i])
		definition, err := json.Marshal(&list[i])
		switch {
		case err != nil:
			logger.Warn(r.kind+" not registered: it cannot be encoded", "server", server, r.kind, key, "error", err)
			continue
		case seen[key]:
			logger.Warn(r.kind+" ignored: the server lists it twice", "server", server, r.kind, key)
			continue
		}
		seen[key] = true
		if old := before[key]; old != nil && bytes.Equal(old.definition, definition) {
			now = append(now, old)
			delete(before, key)
		} else {
			now = append(now, &registration[E]{entry: list[i], key: key, definition: definition})
		}
	}
	for _, old := range before {
		r.drop(old)
	}
	if r.byServer == nil {
		r.byServer = make(map[string][]*registration[E])
	}
	r.byServer[server] = now
}

// apply registers the entries of all servers under the names that they are to have. An entry waits
// while another one has its name: when a name moves to another server, the old list of the first
// server may be seen with the new list of the second.
func (r *registrations[E]) apply(servers []string) {
	if r.byName == nil {
		r.byName = make(map[string]*registration[E])
	}
	for _, server := range servers {
		for _, e := range r.byServer[server] {
			if e.tried != e.want || e.ui != e.wantUI {
				r.drop(e)
			}
		}
	}
	for _, server := range servers {
		for _, e := range r.byServer[server] {
			if e.tried == "" && r.byName[e.want] == nil {
				r.byName[e.want] = e
				e.ui = e.wantUI
				e.tried, e.name = e.want, r.register(server, e.want, &e.entry)
			}
		}
	}
}

// forget deletes the list of a server, which must be empty.
func (r *registrations[E]) forget(server string) { delete(r.byServer, server) }

func (r *registrations[E]) drop(e *registration[E]) {
	if e.name != "" {
		r.unregister(e.name)
	}
	if r.byName[e.tried] == e {
		delete(r.byName, e.tried)
	}
	e.name, e.tried = "", ""
}
