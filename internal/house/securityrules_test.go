package house

// securityRule is a statement that makes an implementation safe, and that a test can
// check. Most come from the documents of the protocol, some are ours.
type securityRule struct {
	id, says string
	// awaits is the work that a rule waits for; empty for one that is tested.
	awaits string
}

const (
	authorization = "authorization" // the resource server's side and the client's
	proxying      = "authorization through a gateway"
	tasks         = "tasks"
	consent       = "policies of a host" // what users are shown and asked
)

var securityRules = []securityRule{
	// Messages, on both sides.
	{"J1", "a request's id is a string or an integer", ""},
	{"J2", "no id is used twice; a second request with one in flight is refused and the first still answered", ""},
	{"J3", "a response completes the request of its id, by value and type, and no other", ""},
	{"J4", "a response has either a result or an error, whose code is an integer", ""},
	{"J5", "notifications have no id and no answer", ""},
	{"J6", "messages are UTF-8", ""},
	{"J7", "batches are accepted in 2025-03-26", ""},
	{"J8", "batches are refused in every other revision", ""},
	{"J9", "results of 2026-07-28 say what kind they are", ""},
	{"J10", "error codes are those of the revision; errors of this side are not taken for the peer's", ""},
	{"J11", "keys of _meta follow their grammar, and applications use none that is reserved", ""},
	{"J12", "requests of 2026-07-28 say their revision and capabilities", ""},
	{"J13", "capabilities are those of the request", ""},
	{"J14", "what peers call themselves influences nothing", ""},
	{"J15", "cancellation is of requests in flight, in their own direction, and races safely", ""},
	{"J16", "every wait is bounded, whatever progress is reported", ""},
	{"J17", "progress grows strictly, ends with its request, and is limited", ""},
	{"J18", "cursors are opaque, invalid ones refused, pages bounded", ""},

	// JSON Schema.
	{"V1", "references lead to no network", ""},
	{"V2", "and cannot be made to", ""},
	{"V3", "a schema with an unresolved reference is refused", ""},
	{"V4", "validation and compilation are bounded", ""},
	{"V5", "an unknown dialect is an error that says so", ""},
	{"V6", "servers validate arguments and structured results", ""},
	{"V7", "answers to forms are validated, and forms are flat", ""},

	// HTTP, serving.
	{"T1", "the origin of every request is checked", ""},
	{"T2", "and a foreign one forbidden", ""},
	{"T3", "on the loopback interface, hosts are checked", ""},
	{"T4", "connections can be authenticated", ""},
	{"T5", "the transport of 2024-11-05 names its endpoint first, and clients hold it against their origin", ""},
	{"T6", "one endpoint; in 2026-07-28 without sessions", ""},
	{"T7", "what needs no answer is accepted with 202", ""},
	{"T8", "ids of sessions are unguessable", ""},
	{"T9", "and no authentication", ""},
	{"T10", "sessions belong to a principal", ""},
	{"T11", "a message goes to one stream", ""},
	{"T12", "responses come on the stream of their request only", ""},
	{"T13", "events have ids that tell their stream, and are replayed to its owner only", ""},
	{"T14", "unsupported versions are refused", ""},
	{"T15", "the version of the header is that of the body", ""},
	{"T16", "method and name of the headers are those of the body", ""},
	{"T17", "encoded headers are decoded strictly", ""},
	{"T18", "parameters in headers are those of the body", ""},
	{"T19", "an unknown method is not found", ""},
	{"T20", "in 2026-07-28 the end of the response's stream cancels", ""},
	{"T21", "in sessions it does not", ""},
	{"T22", "a server of 2026-07-28 sends no requests", ""},
	{"T23", "streams are kept alive, and not buffered", ""},
	{"T24", "secrets are not mirrored in headers", ""},

	// HTTP, calling.
	{"U1", "headers are those that the revision asks for, encoded where they must be", ""},
	{"U2", "tools with marks that cannot be followed are left out", ""},
	{"U3", "ids of sessions are kept to their server, and begun anew when forgotten", ""},
	{"U4", "the server's pause before a reconnection is kept", ""},
	{"U5", "no error of the new revision leads to an older one", ""},
	{"U6", "what was lost is asked again only if it may be", ""},
	{"U7", "access tokens travel in their header", ""},
	{"U8", "to the server that they were issued for", ""},

	// Standard input and output.
	{"S1", "nothing but messages, one a line", ""},
	{"S2", "standard error is drained and is no failure", ""},
	{"S3", "a process is ended step by step, in bounded time", ""},
	{"S4", "a server ends with its input", ""},
	{"S5", "an exit fails the calls in flight, and the next call starts anew", ""},
	{"S6", "credentials come from the environment", ""},
	{"S7", "in 2026-07-28 neither server requests nor client responses", ""},
	{"S8", "nothing is inferred from the connection", ""},

	// Authorization, serving.
	{"R1", "every request is validated before it is processed", ""},
	{"R2", "the audience of a token is this server", ""},
	{"R3", "tokens are not passed through", ""},
	{"R4", "metadata of the protected resource is served", ""},
	{"R5", "scopes are asked for as needed", ""},
	{"R6", "logs hold no credentials", ""},
	{"R7", "lists vary by authorization only", ""},
	{"R8", "authorization is the same everywhere", ""},

	// Authorization, calling.
	{"O1", "PKCE, always", ""},
	{"O2", "the resource is named in each request", ""},
	{"O3", "metadata is of the server that was asked", ""},
	{"O4", "discovery goes in its order and nowhere else", ""},
	{"O5", "an issuer is the one that was asked", ""},
	{"O6", "the issuer of a response is the one that was expected", ""},
	{"O7", "credentials are kept by issuer", ""},
	{"O8", "state is unguessable and used once", ""},
	{"O9", "redirects lead to this machine or to https", ""},
	{"O10", "addresses are https", ""},
	{"O11", "no shell opens the browser", ""},
	{"O12", "addresses inside of the network are not dialled", ""},
	{"O13", "scopes grow step by step, retries are bounded", ""},
	{"O14", "tokens are stored safely", ""},
	{"O15", "registration goes in its order", ""},
	{"O16", "grants of the extensions are checked", ""},

	// A gateway as an authorization server.
	{"P1", "consent comes before the redirect", proxying},
	{"P2", "the page of consent shows what is consented to, in no frame", proxying},
	{"P3", "its cookie is bound to the client", proxying},
	{"P4", "redirects match exactly", proxying},
	{"P5", "state is stored after consent, used once, short-lived", proxying},
	{"P6", "the authorization server keeps to its rules", proxying},
	{"P7", "documents of clients are fetched with care", proxying},
	{"P8", "tokens of others stay here", proxying},

	// What users are shown and asked.
	{"H1", "a command is shown whole before it is first run", consent},
	{"H2", "dangerous ones stand out", consent},
	{"H3", "annotations are not trusted", consent},
	{"H4", "sensitive calls are confirmed", consent},
	{"H5", "a person is in the loop of sampling", consent},
	{"H6", "who asks is shown, and no is an answer", consent},
	{"H7", "addresses are shown whole and not fetched", ""},
	{"H8", "roots are directories", consent},
	{"H9", "tools of several servers are told apart", consent},
	{"H10", "icons are fetched with care", consent},
	{"H11", "network callers choose no commands", consent},
	{"H12", "calls are consented to", consent},

	// What servers offer.
	{"Y1", "calls are limited", ""},
	{"Y2", "no URI leads to what is not served", ""},
	{"Y3", "prompts and completions are validated and disclose nothing", ""},
	{"Y4", "logs to clients are limited, and those that were asked for", ""},
	{"Y5", "questions are bound to who asked", ""},
	{"Y6", "sampling with tools is for those who have it, and each use of a tool has its result", ""},

	// Rounds, caches, subscriptions, tasks.
	{"M1", "a state is an attacker's until its seal is checked", ""},
	{"M2", "and bound to principal, request and time", ""},
	{"M3", "clients return it byte for byte, once", ""},
	{"M4", "servers ask for what was declared", ""},
	{"C1", "private results stay with whom they are for", ""},
	{"N1", "a subscription is acknowledged first, and gets what it asked for", ""},
	{"K1", "ids of tasks are unguessable and bound", tasks},
	{"K2", "what has ended stays ended", tasks},
	{"K3", "a task exists when it is announced", tasks},
	{"K4", "tasks are limited", tasks},
	{"K5", "tasks are for those who know them", tasks},
	{"K6", "handles are no authentication", tasks},
}
