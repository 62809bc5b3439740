// Package browser logs users in with the browser of their machine. [Loopback] is the Interaction of an oauth.Client;
// [Open] opens any page.
package browser
