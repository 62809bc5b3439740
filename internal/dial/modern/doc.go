// Package modern is the client's side of 2026-07-28. [Client] declares the client in every request, and answers the
// questions of a server by sending the request again.
package modern

// Where the rules are:
//
//   - client.go: what each request declares, which result types are valid, and which errors only this era has.
//   - mrtr.go: the rounds of questions: how many there may be, and what happens if one is not answered.
