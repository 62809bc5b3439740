// Package modern is the client's side of 2026-07-28. [Client] declares the client in every request, and answers the
// questions of a server by sending the request again.
package modern
