package jsonrpc

import (
	"github.com/parley-mcp/parley/internal/jsonscan"
)

// Unquote returns the text of a JSON string that has passed [Parse] or [Check].
// The result is a view of raw if the string has no escapes, else a copy. For
// anything but a string Unquote returns "".
func Unquote(raw []byte) string { return jsonscan.Unquote(raw) }

// AppendString appends s as a JSON string, with as few escapes as JSON allows.
// Each byte that is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte { return jsonscan.AppendString(dst, s) }
