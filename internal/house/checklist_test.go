package house

import (
	"strings"
	"testing"
)

// requirements are what the lists of requirements of two other SDKs ask for, grouped by the tests that show it:
// test/e2e/requirements.ts of the TypeScript SDK and tests/interaction/_requirements.py of the Python SDK, as they were
// in August 2026. Not in the table are requirements about the interfaces of those SDKs alone.
var requirements = []struct{ text, tests string }{
	// Beginning of a connection
	{"the handshake agrees on a revision and exchanges names, capabilities and instructions",
		"mcptest.TestDescription internal/serve/legacy.TestHandshakeAgreesOnARevision"},
	{"the client sends initialized once, and probes, falls back or fails by the answer; then the connection ends",
		"client.TestDialFindsTheEra client.TestDialFindsTheEraOverHTTP client.TestErrorsOfAnyEraDoNotCauseFallback"},
	{"a server that answers with another version is followed or rejected",
		"client.TestRejectedRevisionIsFollowedByOneThatTheServerSupports client.TestUnknownRevisionIsAnError"},
	{"a remembered discovery connects without a message", "client.TestDialWithDiscoverySendsNothing"},
	{"before the handshake only ping is served, on both sides",
		"internal/serve/streamserver.TestOnlyPingIsServedBeforeTheHandshake " +
			"client.TestRequestsBeforeTheHandshakeAreRejected server.TestQuestionsBeforeTheHandshakeAreErrors"},
	{"a second handshake is rejected", "internal/serve/streamserver.TestSecondHandshakeIsRejected"},
	{"both sides answer pings", "mcptest.TestServerPingsClient internal/dial/legacy.TestClientAnswersServerRequests"},
	{"a server declares what it has, and other methods do not exist",
		"mcptest.TestResourcesAreDeclared mcptest.TestUndeclaredMethodsAreNotFound " +
			"server.TestCompletionIsDeclaredWhenThereIsACompleter"},
	{"a client declares what its program answers, and rejects the rest",
		"mcptest.TestUndeclaredCapabilitiesAreNotRequested client.TestInvalidInputRequestsAreRejected"},
	{"capabilities of vendors arrive with their settings, on both sides",
		"mcptest.TestExtensionWorksInEveryRevision internal/revision.TestHandshakesDeclareExtensionsInBothPlaces"},
	{"requests of 2026-07-28 carry revision and capabilities, which no caller replaces; clientInfo may be absent",
		"internal/dial/modern.TestRequestsCarryMetadata client.TestInvalidArgumentsAndMetaAreNotSent " +
			"internal/serve/httpserver.TestOpenReportsTheFirstFault"},
	{"earlier messages have no member of 2026-07-28, and their requests no header of it",
		"mcptest.TestCallTool internal/revision.TestLegacyResultsHaveNoModernMembers " +
			"internal/dial/httpclient.TestSessionRequestsCarryTheirHeaders"},
	{"servers name themselves in each result of 2026-07-28",
		"internal/revision.TestModernResultsCarryTypeAndServerInfo"},

	// Requests
	{"ids are unique, and repeated as they were written", "internal/outbound.TestOutboundsWithSharedIDsDoNotReuseIDs " +
		"internal/serve/streamserver.TestIDsAreReturnedUnchanged internal/rpc.TestIDsAreEqualInEverySpelling"},
	{"notifications and responses are not answered",
		"internal/serve/streamserver.TestNotificationsAndResponsesAreNeverAnswered"},
	{"a cancellation is sent once, ends its handler and no other, and gets no response",
		"internal/outbound.TestCancellationIsSentOnce mcptest.TestCancellationReachesHandler " +
			"internal/serve/streamserver.TestCancelledRequestHasNoResponse " +
			"internal/serve/streamserver.TestCancellationAffectsItsConnectionOnly"},
	{"initialize is not cancelled", "internal/outbound.TestRequestsThatMustNotBeCancelled"},
	{"over HTTP, closing the stream cancels a request of 2026-07-28, and not one of a session",
		"server.TestNoMessageIsSentForACancelledRequest " +
			"internal/serve/httpserver.TestDisconnectDoesNotCancelSessionRequest"},
	{"a server cancels the questions that it no longer asks", "mcptest.TestInputRequestsCanBeCancelled"},
	{"late and unknown responses, cancellations and progress are ignored",
		"internal/outbound.TestResponsesToUnknownIDsAreIgnored internal/rpc.TestCancelIgnoresRequestsNotInFlight " +
			"internal/outbound.TestProgressForUnknownTokensIsIgnored"},
	{"an error without an id reaches the log", "client.TestGarbageIsLoggedAndSkipped"},
	{"Close ends the calls in flight, with an error of their own", "client.TestCloseEndsCallsInFlight"},
	{"errors have the code of their cause, and those of handlers their data",
		"mcptest.TestProtocolErrorsAreErrors internal/rpc.TestPanicBecomesInternalError " +
			"internal/rpc.TestUnknownMethodIsNotFound server.TestMalformedParamsAreRejected"},
	{"progress arrives in order, during its call only, and increases; tokens are distinct",
		"mcptest.TestConcurrentCallsReceiveTheirOwnProgress internal/rpc.TestProgressIncreasesStrictly " +
			"internal/rpc.TestNothingIsSentAfterTheCallHasEnded client.TestProgressArrivesDuringTheCallOnly"},
	{"calls end at their time-out, which progress extends up to a maximum, and the connection remains",
		"client.TestCallEndsAtItsTimeout internal/outbound.TestProgressExtendsTheTimeoutUpToTheMaximum"},
	{"_meta reaches handlers and callers",
		"mcptest.TestClientMiddlewareWrapsRequests mcptest.TestResultCanBeSharedByConcurrentCalls"},
	{"methods and notifications of extensions work in both directions, need a declaration, and check their params",
		"mcptest.TestExtensionWorksInEveryRevision mcptest.TestExtensionRequiresDeclaration " +
			"call.TestParamsThatDoNotFitTheirTypeAreAnErrorForTheClient"},
	{"results of another form or type are errors, and never empty results",
		"client.TestMalformedResultsAreInvalid client.TestUnknownResultTypesAreInvalid " +
			"client.TestInputRequiredIsRejectedForOtherMethods client.TestResultsOfOtherTypesAreInvalidInSessions"},

	// Tools, resources, prompts, completion
	{"every kind of content arrives, in tools and prompts", "mcptest.TestEveryKindOfContentArrives"},
	{"definitions arrive as registered", "mcptest.TestDefinitionsOfToolsArrive mcptest.TestListPrompts " +
		"mcptest.TestListResourcesAndFiles mcptest.TestListTemplates"},
	{"lists have pages; cursors are opaque, and others are rejected",
		"mcptest.TestListTools client.TestListsFollowCursors client.TestListsAreLimited " +
			"server.TestInvalidCursorsAreRejected"},
	{"failures of tools are results; unknown tools and resources, and missing arguments of prompts are errors",
		"mcptest.TestToolErrorsAreResults mcptest.TestMissingResourceIsNotFound " +
			"mcptest.TestErrorsOfResourcesHaveCodeAndText mcptest.TestInvalidPromptRequestsAreRejected"},
	{"invalid arguments run no handler", "server.TestArgumentsAreValidated"},
	{"structured content matches its schema at the server, unless the tool failed",
		"server.TestResultsMustMatchTheOutputSchema server.TestEveryKindOfResultIsEncoded"},
	{"the client rejects other structured content, and survives schemas that it cannot use",
		"client.TestResultsAreValidated client.TestInvalidOutputSchemaIsLogged schema.TestOfficialSuitePasses"},
	{"values that are no objects are structured content, wrapped for earlier clients",
		"server.TestValuesThatAreNoObjectsAreStructured internal/revision.TestOnlyModernPeersReceiveOutputSchemasOfAnyType"},
	{"names in use are rejected", "server.TestRegisterToolReturnsTheReason server.TestInvalidResourcesAreRejected " +
		"server.TestInvalidPromptsAreRejected"},
	{"changes while clients are connected are announced, few for many, and only where a client watches",
		"mcptest.TestWatchReportsChanges server.TestManyChangesBecomeOneNotificationForASlowReader " +
			"client.TestWatchOfUndeclaredChangesFailsAtOnce server.TestToolsCanChangeWhileServing"},
	{"entries can be hidden", "server.TestHiddenEntriesAreUnknownToOthers"},
	{"subscribers of a resource receive its updates until they leave",
		"mcptest.TestWatchesAreIndependent server.TestSessionsReceiveOnlyTheirSubscriptions"},
	{"templates give their variables to handlers and list their resources",
		"mcptest.TestReadResources server.TestVariablesAreDecodedIntoTheirTypes server.TestFilesAreListedInTheOrderOfURIs"},
	{"completion has at most 100 values, receives earlier arguments, and rejects unknown references",
		"mcptest.TestComplete"},
	{"log messages of all levels follow the level of client or request, and unknown levels are rejected",
		"mcptest.TestLogMessagesFollowLevelOfClient mcptest.TestServerRejectsInvalidLogLevel"},

	// Questions
	{"sampling reaches the model unchanged, and its answer the handler", "mcptest.TestSamplingArrivesAsItWasSent"},
	{"sampling with tools is declared, and each use has its result, in a message of its own",
		"mcptest.TestSamplingWithToolsNeedsACapability mcp.TestEveryToolUseHasResult"},
	{"a refusal reaches the handler as an error with its code", "mcptest.TestRefusedQuestionsAreErrors"},
	{"forms arrive as they were sent, in every kind of field; they are flat, completed and validated on both sides",
		"mcptest.TestFormsArriveAsTheyWereSent mcptest.TestFormsAreCompletedAndValidated mcp.TestFormMustBeFlat " +
			"server.TestAnswersOfAnotherTypeAreRejected"},
	{"decline and cancel have no content", "mcptest.TestDeclineAndCancelAreTypedErrors server.TestUsersCanDeclineAURL"},
	{"URL elicitation in each revision that has it, with its error, retry and notification",
		"mcptest.TestURLElicitationInEveryRevision client.TestCallIsRepeatedAfterURLElicitation " +
			"client.TestCallIsRepeatedWhenURLElicitationCompletes " +
			"client.TestURLElicitationErrorsOfOtherRevisionsAreIgnored"},
	{"roots are file URIs, may be none, and their changes are announced",
		"client.TestRootsAreFileURIs mcptest.TestRefusedQuestionsAreErrors mcptest.TestServerReceivesRootsChanged"},
	{"one handler asks several questions in a row, in sessions and in 2026-07-28, with bounds",
		"mcptest.TestHandlerRequestsInputInEveryRevision client.TestRequestStateIsReturnedUnchanged " +
			"internal/serve/modern.TestRoundsAreLimited"},

	// Tasks
	{"tasks of 2025-11-25: creation, status, time to live, list, result, questions, cancellation, isolation",
		"server.TestTaskHasTheTTLThatTheServerAllows server.TestTaskListHasTheTasksOfTheCaller " +
			"server.TestTaskResultBlocksUntilTheTaskHasEnded server.TestTaskResultCarriesTheQuestionsOfTheTask " +
			"server.TestLegacyCancelEndsTheTaskBeforeTheResponse server.TestOnlyTasksCancelCancelsATask " +
			"server.TestStoredThingsDoNotExistForOtherPrincipals"},
	{"tools decide whether they run as tasks", "server.TestTaskSupportOfToolsIsEnforced"},
	{"progress, status and related tasks of messages", "server.TestSessionsAreNotifiedOfTheirTasks " +
		"client.TestTaskOfASessionReportsProgressWithTheTokenOfItsCall " +
		"internal/revision.TestRelatedTaskIsAddedToTheMetadata"},
	{"a client runs questions as tasks", "internal/dial/legacy.TestClientCreatesATaskBeforeItAsks"},

	// Subscriptions of 2026-07-28
	{"a listen is acknowledged first with what is honoured, gets that only, and ends with a result",
		"server.TestListenIsAcknowledgedFirst server.TestListensAreLimitedToDeclaredCapabilities " +
			"server.TestTwoListensOnOneConnectionAreSeparate mcptest.TestShutdownEndsWatches"},
	{"listens have a limit of their own", "internal/rpc.TestSubscriptionsHaveTheirOwnLimit"},

	// HTTP servers
	{"sessions: ids, isolation, reuse, end; unknown and missing ids, versions and event ids have their statuses",
		"internal/corpus.TestServersAnswerBadHTTPRequests " +
			"internal/serve/legacy.TestSessionIDsAreUnguessableAndVisibleASCII " +
			"internal/serve/legacy.TestDeletedSessionStaysDeleted internal/serve/legacy.TestDeleteCancelsRequestsInFlight"},
	{"the revision of a rejected header is followed by those that sessions can have",
		"server.TestAVersionThatNoSessionHasIsRejectedWithThoseThatExist"},
	{"2026-07-28 has POST only, no sessions, and no methods of sessions", "server.TestTheModernEraHasOnlyPOST"},
	{"Accept, Content-Type, batches, 202, and parse errors",
		"internal/serve/httpserver.TestAcceptHeaderFollowsRFC9110 internal/serve/httpserver.TestPostRequiresJSON " +
			"server.TestBatchIsServedInTheOneRevisionThatHasIt server.TestNotificationsAndResponsesAreAcceptedWithoutABody"},
	{"Origin, Host, and what pages can read", "server.TestOriginIsCheckedOnEveryMethod " +
		"server.TestAllowedOriginsCanReadResponses"},
	{"a response is JSON or a stream, as the client accepts, and is on the stream of its request, which then ends",
		"server.TestTheResponseHasATypeThatTheClientAccepts server.TestTheResponseStreamBelongsToTheCall"},
	{"server messages are on one stream, never lost or doubled when it is resumed",
		"server.TestChangesGoToOneStreamOfASession server.TestEachEventOfAStreamThatIsCutFiftyTimesArrivesOnce " +
			"server.TestForgedEventIDsReplayNothing server.TestCloseStreamDisconnectsTheClient"},
	{"HTTP+SSE beside Streamable HTTP", "server.TestPairBeginsWithItsEndpoint server.TestPairEndsWithItsStream"},
	{"headers repeat method, name and parameters, and must agree with the body",
		"mcptest.TestParametersAreMirroredInHeaders mcptest.TestHeadersMustMatchArguments"},
	{"results that may be cached say so, in 2026-07-28 only",
		"server.TestCachePoliciesSetTheHints mcptest.TestReadResources"},

	// HTTP clients
	{"headers of each request, those of the program too", "internal/dial/httpclient.TestModernRequestsCarryTheirHeaders " +
		"internal/dial/httpclient.TestSessionRequestsCarryTheirHeaders"},
	{"every form of response is read", "internal/dial/httpclient.TestClientReadsEachFormOfResponse"},
	{"a lost session is replaced", "client.TestExpiredSessionIsReplaced"},
	{"streams are resumed after the delay that the server asks for, unless they are finished or closed",
		"internal/dial/httpclient.TestStandaloneStreamIsResumedAfterTheRetryDelay " +
			"internal/dial/httpclient.TestBrokenResponseOfASessionIsResumed client.TestCloseEndsReconnecting"},
	{"a server without the GET stream is no error", "internal/dial/httpclient.TestClientAsksOnceForStandaloneStream"},
	{"status errors have their status and the error of the server",
		"internal/dial/httpclient.TestStatusErrorsContainTheServersError"},

	// Authorization
	{"tokens: audience, expiry, scopes, challenges, metadata, and never in the query",
		"auth.TestAudienceIsComparedAsURI auth.TestRequireWithoutToken auth.TestMetadataIsServed " +
			"auth/jwt.TestDefectiveTokensAreInvalid internal/serve/httpserver.TestAuthorizationIsTheSameEverywhere"},
	{"discovery, PKCE, state, issuer, resource and https, by the rules", "auth/oauth.TestViolationsLeadToErrors " +
		"auth/oauth.TestDiscoveryRequestsTheWellKnownURLsInOrder auth/oauth.TestCallbacksOfTheCorpusAreJudgedAsRecorded"},
	{"registration: order, document, application type, unusable answers, and one for each issuer",
		"auth/oauth.TestRegistrationsAreTriedInOrder auth/oauth.TestUnusableRegistrationsFailBeforeTheLogin " +
			"auth/oauth.TestChangedAuthorizationServer auth/oauth.TestRegistrationIsBoundToTheFirstIssuer"},
	{"scopes: of the challenge, offline access, and step-up with the union, which ends",
		"auth/oauth.TestScopesOfTheChallengeComeFirst auth/oauth.TestStepUpRequestsTheUnion mcptest.TestStepUpKeepsSession"},
	{"tokens are refreshed, rotated, bound to their server, and forgotten after a refusal",
		"auth/oauth.TestConcurrentRequestsShareOneRefresh auth/oauth.TestRefreshTokenIsForgottenOnlyAfterARefusal " +
			"auth/oauth.TestRefreshTokenIsKeptIfTheResponseHasNone auth/oauth.TestTokensAreSentToTheirServerOnly"},
	{"clients without a user", "auth/oauth.TestGrantsWithoutUser auth/oauth.TestEnterpriseGrant"},
	{"the issuer for development: redirects, PKCE, codes, registration", "auth/devissuer.TestCodeIsBoundToItsRequest " +
		"auth/devissuer.TestUnregisteredRedirectURIsAreRejected auth/devissuer.TestDynamicRegistration"},

	// stdio
	{"one message a line, and nothing else", "transport.TestLinesAreMessages transport.TestPrintedTextGoesToStderr " +
		"internal/rpc.TestResultsHaveNoLineBreaks"},
	{"closing ends the process, gently first; its environment is small, and its standard error is kept",
		"transport.TestServerThatIgnoresEOFIsTerminated transport.TestServerThatIgnoresSIGTERMIsKilled " +
			"transport.TestEnvironmentIsInheritedOnlyOnRequest transport.TestStderrArrivesLineByLine"},
}

// departures are requirements of the two lists that Parley does not follow, and why.
var departures = []struct{ text, why string }{
	{"lists of an undeclared capability are empty",
		"an error says what is wrong; host and program ask only for what is declared"},
	{"a tool with an unusable output schema cannot be called", "its result is returned and logged: the tool has run"},
	{"a tool is listed before its first call", "results are validated after the program has listed the tools"},
	{"a name that breaks the convention is registered with a warning", "a wrong name is an error when the server starts"},
	{"a second GET stream of a session is rejected", "it replaces the first, which may be of a lost connection"},
	{"the response to a cancelled request is error -32800",
		"receivers should not respond (2025-11-25, basic/utilities/cancellation)"},
	{"a stream of 2025-11-25 begins with an event that has retry",
		"the Java SDK ends a stream at retry: see wiretest.Readers"},
	{"a server asks over the GET stream, outside of a call",
		"questions belong to calls, as in 2026-07-28 (basic/patterns/mrtr)"},
	{"servers receive the progress of questions", "no question has a progress token: its Within is the limit"},
	{"a watch that the server ends without a result fails", "it is opened again, and the first change of it says so"},
	{"a subscription above the limit is -32603", "overload has one error on every wire, with the time to wait"},
	{"a failing metadata request leads to the rules of 2025-03-26", "status 5xx says nothing about the metadata"},
	{"results of the revision 2024-10-07 are read", "it is no revision of the specification"},
	{"invalid arguments of a tool are -32602", "a tool error, which the model can correct (server/tools, Error Handling)"},
	{"the handler of a cancelled task runs on", "receivers should stop it (2025-11-25, basic/utilities/tasks)"},
	{"Mcp-Name for methods of vendors", "2026-07-28, basic/transports/streamable-http names the methods that have it"},
}

func TestRequirementsOfOtherSDKsHaveTests(t *testing.T) {
	for _, r := range requirements {
		if r.tests == "" {
			t.Errorf("%q needs a test", r.text)
		}
		for name := range strings.FieldsSeq(r.tests) {
			dir, test, _ := strings.Cut(name, ".")
			if !hasTest(t, dir, test, "") {
				t.Errorf("%q: %s does not exist", r.text, name)
			}
		}
	}
	for _, d := range departures {
		if d.text == "" || d.why == "" {
			t.Errorf("%q needs a reason: %q", d.text, d.why)
		}
	}
}
