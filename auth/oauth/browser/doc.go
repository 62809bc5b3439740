// Package browser logs users in with the browser of their machine. [Loopback] is the Interaction of an oauth.Client;
// [Open] opens any page.
package browser

// Where the rules are:
//
//   - loopback.go: on which port a login listens, which browser may use its start page (begin), which redirect counts
//     (accept), and how long it waits.
//   - open.go: which command opens a URL, and how it is kept from other users of the machine.
