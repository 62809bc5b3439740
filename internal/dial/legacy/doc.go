// Package legacy is the client's side of the revisions 2024-11-05 to 2025-11-25: the handshake, the questions of the
// server, subscriptions, and tasks that the client runs for the server. [Client] sends requests over any wire.
package legacy

// Where the rules are:
//
//   - client.go: the handshake, which requests of a server are answered, and how long a reply is tried again.
//     origin.go: for which call a server asks. questions.go: what is displaced if a server asks too much; how many are
//     answered at a time is limited in internal/outbound/inputlimit.go.
//   - urlelicitation.go: how long the end of a URL elicitation is awaited, even if it comes before the question, how
//     many are, and calls that are repeated afterwards. tasks.go: questions that run as tasks: how many, and how long.
//     subscribe.go: subscriptions to resources.
