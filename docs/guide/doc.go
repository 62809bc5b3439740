// Package guide has the Go code of the pages of the guide that is in no example. It consists of tests, so that the code
// is compiled and run: the tests of cmd/parley check that the blocks on a page are whole lines of these files.
package guide
