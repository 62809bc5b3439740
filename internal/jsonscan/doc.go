// Package jsonscan scans JSON strictly. It is the one scanner under packages
// jsonrpc and schema.
//
// The scanner accepts exactly the JSON that every parser reads alike (RFC 8259
// and RFC 7493). It rejects duplicate member names at any depth, invalid UTF-8,
// lone surrogates, data after the value, and whatever exceeds its bounds.
//
// [Scanner] only checks. [Document] also records each value and member name as a
// [Token], so that a program can look at parts of the text again without scanning
// them again. The functions of this package allocate nothing for ordinary input.
package jsonscan
