// Package examples contains small complete programs, one for each feature. Its tests build
// and run them.
package examples
