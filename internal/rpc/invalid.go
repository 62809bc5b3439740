package rpc

import "github.com/parley-mcp/parley/jsonrpc"

// ReceiveInvalid passes an invalid message to r. m has the part of data that could be read. If
// data is an invalid batch, or a batch in a revision without batches, the requests that wait for
// the responses in it end with the error.
func ReceiveInvalid(r Receiver, m *jsonrpc.Message, data []byte, err error) {
	for id := range jsonrpc.Responses(data) {
		r.ReceiveInvalid(&jsonrpc.Message{Kind: jsonrpc.Response, ID: id}, err)
	}
	r.ReceiveInvalid(m, err)
}
