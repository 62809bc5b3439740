// Package callkey defines the context key of the call that a handler serves. Package call looks the call up with it;
// package internal/rpc puts it into the context.
package callkey

// Key is the key. Its value is a *call.Call.
type Key struct{}
