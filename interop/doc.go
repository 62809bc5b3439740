// Package interop tries this library against implementations of the protocol that we did not write: clients and
// servers made with both generations of the TypeScript SDK (npm/), and two published servers. Its tests need Node and
// the packages that scripts/tools installs, so they carry the build tag "integration"; make interop runs them.
package interop
