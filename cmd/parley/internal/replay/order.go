package replay

import (
	"net/http"

	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
	"github.com/parley-mcp/parley/jsonrpc"
)

// ordered returns the entries in the order in which the server has served them, as far as the responses tell.
// Clients send the DELETE request for a session while other requests of the session are in flight. A request for
// which the session was not found follows the response to the DELETE request. A DELETE request follows the
// responses that came before its own, the beginnings of streams, and results; the ends of streams follow it.
func ordered(entries []recording.Entry) []*recording.Entry {
	out := make([]*recording.Entry, 0, len(entries))
	responses := make(map[int64]int) // index by exchange
	streams := make(map[int64]bool)  // exchanges with a GET request
	for i := range entries {
		out = append(out, &entries[i])
		if r := entries[i].Request; r != nil && r.Method == http.MethodGet {
			streams[entries[i].Exchange] = true
		}
		if entries[i].Response != nil {
			responses[entries[i].Exchange] = i
		}
	}
	after := make(map[int][]*recording.Entry) // that follow the entry with an index
	moved := make(map[*recording.Entry]bool)
	for i, e := range out {
		j, answered := 0, false
		if e.Request != nil && e.Request.Method == http.MethodDelete {
			j, answered = responses[e.Exchange]
		}
		if !answered {
			continue
		}
		last := i // the last response before that of the DELETE request
		var late []*recording.Entry
		for _, other := range out[:j] {
			response, ok := responses[other.Exchange]
			switch {
			case !ok || other.Exchange == e.Exchange || other.Request == nil:
			case response > i && out[response].Response.Status == http.StatusNotFound:
				late = append(late, other)
			case response > i && response < j, response > j && (other.Request.Method == http.MethodGet || inSession(e, other, out[response]) && hasResult(out[response])):
				last = max(last, response)
			}
		}
		if last > i {
			after[last] = append(after[last], e)
			for _, other := range out[i:last] { // the session ends streams, too
				if other.End && other.Response == nil && other.From == recording.Server && streams[other.Exchange] && !moved[other] {
					moved[other] = true
					after[last] = append(after[last], other)
				}
			}
		}
		end := max(last, j)
		if last > j {
			after[last] = append(after[last], out[j])
		}
		for _, other := range late {
			after[end] = append(after[end], other)
			if response := responses[other.Exchange]; response < end {
				after[end] = append(after[end], out[response])
			}
		}
	}
	for _, list := range after {
		for _, e := range list {
			moved[e] = true
		}
	}
	var result []*recording.Entry
	for i, e := range out {
		if !moved[e] {
			result = append(result, e)
		}
		result = append(result, after[i]...)
	}
	return result
}

// inSession reports whether a request, or its response, has the session of a DELETE request.
func inSession(end, request, response *recording.Entry) bool {
	const header = "Mcp-Session-Id"
	id := end.Request.Header.Get(header)
	return request.Request.Header.Get(header) == id || response.Response.Header.Get(header) == id
}

// hasResult reports whether a response has a result. The result of a tool that has failed does not count, because the end
// of the session may be the reason.
func hasResult(e *recording.Entry) bool {
	result := parse(e.Message).Result
	isError, _ := jsonrpc.Get(result, "isError")
	return result != nil && string(isError) != "true"
}
