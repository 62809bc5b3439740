// Package jsonscan scans JSON strictly. Packages jsonrpc and schema both use it.
//
// The scanner accepts exactly the JSON that every parser reads alike (RFC 8259 and RFC 7493). It rejects duplicate keys
// at any depth, invalid UTF-8, lone surrogates, data after the value, and whatever exceeds its bounds.
//
// [Scanner] only checks. [Document] also records each value and key as a [Token], so that a program can look at parts
// of the text again without another scan. The functions of this package allocate nothing for ordinary input.
package jsonscan
