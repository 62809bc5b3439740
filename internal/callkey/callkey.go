// Package callkey has the context key of the call that a handler serves. Package call looks the
// call up with it; package internal/rpc, whose contexts carry the call, answers it.
package callkey

// Key is the key. Its value is a *call.Call.
type Key struct{}
