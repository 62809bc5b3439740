// Package corpus is a collection of bad input and of the outcome that each input must have. Only tests import it.
//
// The files under testdata hold the cases; README.md describes their form. The tests of this package send the cases of
// the folders server, client and http over every wire. The cases of the folder rules belong to one function each, and
// the tests of the package of that function read them with [Cases].
package corpus
