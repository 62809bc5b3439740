package house

// securityRule is a requirement that a test can check. Most rules come from the specification; some are our own.
type securityRule struct {
	id, text string
	// awaits names the work that must come before the rule can be tested. It is empty for a rule with a test.
	awaits string
}

const (
	proxying = "authorization through a gateway"
	tasks    = "tasks"
	consent  = "policies of a host" // what a host shows to the user and asks
)

var securityRules = []securityRule{
	// Messages, on both sides.
	{"J1", "the id of a request is a string or an integer", ""},
	{"J2", "a request whose id is in flight is rejected, and the first request with that id still gets its response",
		""},
	{"J3", "a response completes only the request with the same id, of the same type and value", ""},
	{"J4", "a response has either a result or an error, and the error code is an integer", ""},
	{"J5", "a notification has no id and gets no response", ""},
	{"J6", "messages are UTF-8", ""},
	{"J7", "batches are accepted in 2025-03-26", ""},
	{"J8", "batches are rejected in every other revision", ""},
	{"J9", "results of 2026-07-28 have a resultType", ""},
	{"J10", "error codes are those of the revision, and local errors do not look like errors of the peer", ""},
	{"J11", "keys of _meta follow the grammar, and applications cannot set reserved keys", ""},
	{"J12", "requests of 2026-07-28 carry their revision and capabilities", ""},
	{"J13", "the capabilities of a request are those that it carries", ""},
	{"J14", "behaviour does not depend on the names of peers", ""},
	{"J15", "a cancellation affects only requests in flight that its sender made, and may race with the response", ""},
	{"J16", "every wait has a time-out, and progress does not extend it for ever", ""},
	{"J17", "progress increases strictly, ends with its request and is rate-limited", ""},
	{"J18", "cursors are opaque, invalid cursors are rejected, and pages are bounded", ""},

	// JSON Schema.
	{"V1", "references never cause network access", ""},
	{"V2", "no setting makes references cause network access", ""},
	{"V3", "a schema with an unresolved reference is rejected", ""},
	{"V4", "validation and compilation are bounded", ""},
	{"V5", "an unknown dialect is an error that names it", ""},
	{"V6", "servers validate arguments and structured results", ""},
	{"V7", "answers to forms are validated, and forms are flat", ""},

	// HTTP servers.
	{"T1", "the Origin of every request is checked", ""},
	{"T2", "a request with a foreign Origin is forbidden", ""},
	{"T3", "on the loopback interface, the Host header is checked", ""},
	{"T4", "requests can be authenticated", ""},
	{"T5", "the 2024-11-05 transport sends its endpoint first, and the client checks that its origin is the same", ""},
	{"T6", "one endpoint serves every revision; 2026-07-28 has no sessions", ""},
	{"T7", "messages that need no response are accepted with status 202", ""},
	{"T8", "session ids are unguessable", ""},
	{"T9", "a session id does not authenticate its sender", ""},
	{"T10", "a session belongs to a principal", ""},
	{"T11", "a message is sent on one stream only", ""},
	{"T12", "a response is sent only on the stream of its request", ""},
	{"T13", "event ids identify their stream, and events are replayed only to its owner", ""},
	{"T14", "unsupported protocol versions are rejected", ""},
	{"T15", "the version in the header must equal the version in the body", ""},
	{"T16", "method and name in the headers must equal those in the body", ""},
	{"T17", "encoded headers are decoded strictly", ""},
	{"T18", "parameters in headers must equal those in the body", ""},
	{"T19", "an unknown method gets status 404", ""},
	{"T20", "in 2026-07-28 a disconnect cancels the request", ""},
	{"T21", "in a session a disconnect does not cancel the request", ""},
	{"T22", "a server sends no requests in 2026-07-28", ""},
	{"T23", "event streams are kept alive and not buffered", ""},
	{"T24", "secrets are not mirrored in headers", ""},

	// HTTP clients.
	{"U1", "requests have the headers that the revision requires, encoded where necessary", ""},
	{"U2", "tools whose header annotations cannot be followed are left out", ""},
	{"U3", "a session id is sent only to its server, and a lost session is replaced by a new one", ""},
	{"U4", "the client waits as long as the server asks before it reconnects", ""},
	{"U5", "an error of the modern era never causes a fallback to an older revision", ""},
	{"U6", "a lost request is sent again only if that is safe", ""},
	{"U7", "access tokens are sent in the Authorization header only", ""},
	{"U8", "access tokens are sent only to the server that they were issued for", ""},

	// Standard input and output.
	{"S1", "standard output has only messages, one on each line", ""},
	{"S2", "standard error is drained, and output there is not a failure", ""},
	{"S3", "a process is stopped step by step, in bounded time", ""},
	{"S4", "a server ends when its input ends", ""},
	{"S5", "an exit fails the calls in flight, and the next call starts the process again", ""},
	{"S6", "credentials come from the environment", ""},
	{"S7", "2026-07-28 has no server requests and no client responses", ""},
	{"S8", "no identity is inferred from the connection", ""},

	// Authorization in servers.
	{"R1", "every request is authorized before it is processed", ""},
	{"R2", "the audience of a token must be this server", ""},
	{"R3", "tokens are not passed through", ""},
	{"R4", "the metadata of the protected resource is served", ""},
	{"R5", "scopes are requested when they are needed", ""},
	{"R6", "logs have no credentials", ""},
	{"R7", "lists vary by authorization only", ""},
	{"R8", "authorization is the same on every transport", ""},
	{"R9", "an ID token, or another token that gives no access, is never accepted as an access token", ""},
	{"R10", "the tokens of other tenants, and of clients that are not allowed, are rejected", ""},
	{"R11", "advice never proposes to trust the issuer of a token that was not verified", ""},
	{"R12", "what belongs to a caller whom the program has authenticated does not exist for others", ""},
	{"R13", "a caller of the program without a principal, or who has expired, is not served", ""},
	{"R14", "API keys are stored as digests, end when they are removed, and are sent to no other server", ""},
	{"R15", "the header in which a proxy names its user counts in requests from the proxy only", ""},

	// Authorization in clients.
	{"O1", "every authorization code request uses PKCE", ""},
	{"O2", "every request names the resource", ""},
	{"O3", "metadata must be about the server that it was requested from", ""},
	{"O4", "discovery follows the specified order and uses no other URLs", ""},
	{"O5", "the issuer in the metadata must be the one that was asked", ""},
	{"O6", "the issuer of an authorization response must be the expected one", ""},
	{"O7", "credentials are stored by issuer", ""},
	{"O8", "state is unguessable and used once", ""},
	{"O9", "redirect URIs use the loopback interface or https", ""},
	{"O10", "URLs use https", ""},
	{"O11", "the browser is opened without a shell", ""},
	{"O12", "private network addresses are not dialled", ""},
	{"O13", "scopes are added step by step, and retries are bounded", ""},
	{"O14", "tokens are stored safely", ""},
	{"O15", "registration follows the specified order", ""},
	{"O16", "grants of the extensions are checked", ""},
	{"O17", "a login omits resource, or accepts metadata without S256, only if a setting says so, and never on its own", ""},
	{"O18", "claims and groups decide only if their token was verified, and groups that are not known deny", ""},

	// A gateway as an authorization server.
	{"P1", "the user consents before the redirect", ""},
	{"P2", "the consent page shows what the user consents to, and cannot be framed", ""},
	{"P3", "the cookie of the consent page is bound to the client", ""},
	{"P4", "redirect URIs must match exactly", proxying},
	{"P5", "state is stored after consent, used once and short-lived", ""},
	{"P6", "the authorization server follows its own rules", proxying},
	{"P7", "client metadata documents are fetched safely", proxying},
	{"P8", "upstream tokens are not passed on", ""},

	// The user of a host.
	{"H1", "a command is shown in full before its first run", consent},
	{"H2", "dangerous commands are marked", consent},
	{"H3", "annotations are not trusted", consent},
	{"H4", "the user confirms sensitive calls", consent},
	{"H5", "the user approves sampling requests", consent},
	{"H6", "an elicitation shows which server asks, and the user can decline", ""},
	{"H7", "URLs are shown in full and not fetched", ""},
	{"H8", "roots are file URIs", ""},
	{"H9", "tools of several servers have distinct names", consent},
	{"H10", "icons have safe sources", ""},
	{"H11", "network callers cannot choose commands", consent},
	{"H12", "the user consents to calls", consent},

	// Programs of servers.
	{"W1", "a confined program reaches nothing but what its rules allow", ""},
	{"W2", "a program does not start if the system cannot enforce its rules", ""},

	// Features of servers.
	{"Y1", "calls are rate-limited", ""},
	{"Y2", "a URI cannot reach data that is not served", ""},
	{"Y3", "prompts and completions are validated and disclose nothing", ""},
	{"Y4", "log messages to clients are rate-limited and sent only on request", ""},
	{"Y5", "input requests are bound to the caller", ""},
	{"Y6", "sampling with tools requires the capability, and every tool use has a result", ""},

	// Rounds, caches, subscriptions, tasks.
	{"M1", "requestState is untrusted until its seal is checked", ""},
	{"M2", "requestState is bound to principal, request and time", ""},
	{"M3", "clients return requestState once, byte for byte", ""},
	{"M4", "servers request only input that the client declared", ""},
	{"C1", "private results are cached for their caller only", ""},
	{"N1", "a subscription is acknowledged first and receives only what it asked for", ""},
	{"K1", "task ids are unguessable and bound to a principal", ""},
	{"K2", "a terminal state is final", tasks},
	{"K3", "a task exists before its id is sent", tasks},
	{"K4", "the number of tasks is limited", tasks},
	{"K5", "a task is visible only to callers who know its id", tasks},
	{"K6", "a task id does not authenticate its sender", ""},
}
