// Package examples holds small complete programs, one for each feature, to be copied.
// Its tests build and run each of them.
package examples
