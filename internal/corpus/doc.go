// Package corpus is a collection of bad input and of the outcome that each input must have. Only tests import it.
//
// The files under testdata hold the cases; README.md describes their form. The tests of this package send the cases of
// the folders server, client and http over every wire. Each case in the folder rules tests one function, and the tests
// of that function's package read it with [Cases].
package corpus
