package replay

import (
	"net/http"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/jsonrpc"
)

// order is the order in which a server has served the entries of a recording.
type order struct {
	entries []traffic.Entry
	after   map[int][]int // indices of entries that follow another one, in their order
	moved   map[int]bool  // the entries in after
}

// exchange has the indices of the entries of an HTTP request and its response.
type exchange struct {
	request, response int
	end               int // of the response, if it is a stream; or 0
}

// ordered returns the entries in the order in which the server has served them, as far as the responses tell.
// Clients send the DELETE request for a session while other requests of the session are in flight. A request for
// which the session was not found follows the response to the DELETE request. A DELETE request follows the
// responses that came before its own, the beginnings of streams, and results; the ends of streams follow it.
func ordered(entries []traffic.Entry) []*traffic.Entry {
	o := &order{entries: entries, after: make(map[int][]int), moved: make(map[int]bool)}
	sessions := o.sessions()
	for i, e := range entries {
		if e.Request == nil || e.Request.Method != http.MethodDelete {
			continue
		}
		session := sessions[sessionOf(e.Request.Header)]
		for _, x := range session {
			if x.request == i {
				o.endSession(x, session)
			}
		}
	}
	result := make([]*traffic.Entry, 0, len(entries))
	for i := range entries {
		if !o.moved[i] {
			result = append(result, &entries[i])
		}
		for _, other := range o.after[i] {
			result = append(result, &entries[other])
		}
	}
	return result
}

// sessions returns the exchanges with a response by session, in the order of their requests.
func (o *order) sessions() map[string][]*exchange {
	byNumber := make(map[int64]*exchange)
	for i, e := range o.entries {
		x := byNumber[e.Exchange]
		switch {
		case e.Request != nil:
			byNumber[e.Exchange] = &exchange{request: i}
		case x == nil || e.From != traffic.Server:
		case e.Response != nil:
			x.response = i
		case e.End:
			x.end = i
		}
	}
	sessions := make(map[string][]*exchange)
	for i, e := range o.entries {
		x := byNumber[e.Exchange]
		if x == nil || x.request != i || x.response == 0 {
			continue
		}
		id := sessionOf(e.Request.Header)
		if id == "" { // the request that begins a session
			id = sessionOf(o.entries[x.response].Response.Header)
		}
		sessions[id] = append(sessions[id], x)
	}
	return sessions
}

func sessionOf(h http.Header) string { return h.Get("Mcp-Session-Id") }

// endSession orders the exchanges of a session around the DELETE request that has ended it.
func (o *order) endSession(end *exchange, session []*exchange) {
	last := end.request // the last response before that of the DELETE request
	var late []*exchange
	for _, x := range session {
		switch {
		case x == end || x.request > end.response || x.response < end.request:
		case o.entries[x.response].Response.Status == http.StatusNotFound:
			late = append(late, x)
		case x.response < end.response || o.isStream(x) || hasResult(&o.entries[x.response]):
			last = max(last, x.response)
		}
	}
	if last > end.request {
		o.move(end.request, last)
		for _, x := range session {
			if o.isStream(x) && x.end > end.request && x.end < last {
				o.move(x.end, last)
			}
		}
	}
	if last > end.response {
		o.move(end.response, last)
	}
	last = max(last, end.response)
	for _, x := range late {
		o.move(x.request, last)
		if x.response < last {
			o.move(x.response, last)
		}
	}
}

// move puts an entry after another one, unless it was moved.
func (o *order) move(i, after int) {
	if !o.moved[i] {
		o.moved[i] = true
		o.after[after] = append(o.after[after], i)
	}
}

// isStream reports whether an exchange is a stream that a GET request has opened.
func (o *order) isStream(x *exchange) bool {
	return o.entries[x.request].Request.Method == http.MethodGet
}

// hasResult reports whether a response has a result. The result of a tool that has failed does not count, because the end
// of the session may be the reason.
func hasResult(e *traffic.Entry) bool {
	result := parse(e.Message).Result
	isError, _ := jsonrpc.Get(result, "isError")
	return result != nil && string(isError) != "true"
}
