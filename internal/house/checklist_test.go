package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// requirements lists what the requirement lists of two other SDKs ask for, with the tests that show it:
// test/e2e/requirements.ts of the TypeScript SDK and tests/interaction/_requirements.py of the Python SDK, as they were
// in August 2026. Requirements about the interfaces of those SDKs are left out. Parley does not follow these, for the
// reason after the colon:
//
//   - lists of an undeclared capability are empty: an error says what is wrong; host and program ask only for what is
//     declared
//   - a tool with an unusable output schema cannot be called: its result is returned and logged: the tool has run
//   - a tool is listed before its first call: results are validated after the program has listed the tools
//   - a name that breaks the convention is registered with a warning: a wrong name is an error when the server starts
//   - a second GET stream of a session is rejected: it replaces the first, which may belong to a lost connection
//   - the response to a cancelled request is error -32800: receivers should not respond (2025-11-25,
//     basic/utilities/cancellation)
//   - a stream of 2025-11-25 begins with an event that has retry: the Java SDK ends a stream at retry: see
//     wiretest.Readers
//   - a server asks over the GET stream, outside of a call: questions belong to calls, as in 2026-07-28
//     (basic/patterns/mrtr)
//   - log messages outside of a request: they belong to requests, as in 2026-07-28 (server/utilities/logging)
//   - servers receive the progress of questions: no question has a progress token: its Within is the limit
//   - a watch that the server ends without a result fails: it is opened again, and the first change of it says so
//   - a subscription above the limit is -32603: overload is the same error on every wire, with the time to wait
//   - a failing metadata request leads to the rules of 2025-03-26: status 5xx says nothing about the metadata
//   - results of the revision 2024-10-07 are read: it is no revision of the specification
//   - invalid arguments of a tool are -32602: a tool error, which the model can correct (server/tools, Error
//     Handling)
//   - the handler of a cancelled task runs on: receivers should stop it (2025-11-25, basic/utilities/tasks)
//   - Mcp-Name for methods of vendors: 2026-07-28, basic/transports/streamable-http names the methods that have it
const requirements = `
Beginning of a connection:
- the handshake agrees on a revision and exchanges names, capabilities and instructions: mcptest.TestDescription
  serve/legacy.TestHandshakeAgreesOnARevision
- the client sends initialized once, and probes, falls back or fails by the answer; then the connection ends:
  client.TestDialFindsTheEra client.TestDialFindsTheEraOverHTTP client.TestErrorsOfAnyEraDoNotCauseFallback
- a server that answers with another version is followed or rejected:
  client.TestRejectedRevisionIsFollowedByOneThatTheServerSupports client.TestUnknownRevisionIsAnError
- a remembered discovery connects without a message: client.TestDialWithDiscoverySendsNothing
- before the handshake only ping is served, on both sides: streamserver.TestTheHandshakeDecidesHowLaterMessagesAreRead
  client.TestRequestsBeforeTheHandshakeAreRejected server.TestQuestionsBeforeTheHandshakeAreErrors
- a second handshake is rejected: streamserver.TestTheHandshakeDecidesHowLaterMessagesAreRead
- both sides answer pings: mcptest.TestServerPingsClient dial/legacy.TestClientAnswersServerRequests
- a server declares what it has, and other methods do not exist: mcptest.TestResourcesAreDeclared
  mcptest.TestUndeclaredMethodsAreNotFound server.TestCompletionIsDeclaredWhenThereIsACompleter
- a client declares what its program answers, and rejects the rest: mcptest.TestUndeclaredCapabilitiesAreNotRequested
  client.TestInvalidInputRequestsAreRejected
- capabilities of vendors arrive with their settings, on both sides: mcptest.TestExtensionWorksInEveryRevision
  revision.TestHandshakesDeclareExtensionsInBothPlaces
- requests of 2026-07-28 carry revision and capabilities, which no caller replaces; clientInfo may be absent:
  dial/modern.TestRequestsCarryMetadata client.TestInvalidArgumentsAndMetaAreNotSent
  httpserver.TestOpenReportsTheFirstFault
- earlier messages have no member of 2026-07-28, and their requests no header of it: mcptest.TestCallTool
  revision.TestLegacyResultsHaveNoModernMembers httpclient.TestSessionRequestsCarryTheirHeaders
- servers name themselves in each result of 2026-07-28: revision.TestModernResultsCarryTypeAndServerInfo
Requests:
- ids are unique, and repeated as they were written: outbound.TestOutboundsWithSharedIDsDoNotReuseIDs
  streamserver.TestIDsAreReturnedUnchanged rpc.TestIDsAreEqualInEverySpelling
- notifications and responses are not answered: streamserver.TestNotificationsAndResponsesAreNeverAnswered
- a cancellation is sent once, ends its handler and no other, and gets no response: outbound.TestCancellationIsSentOnce
  mcptest.TestCancellationReachesHandler streamserver.TestCancelledRequestHasNoResponse
  streamserver.TestCancellationAffectsItsConnectionOnly
- initialize is not cancelled: outbound.TestRequestsThatMustNotBeCancelled
- over HTTP, closing the stream cancels a request of 2026-07-28, and not one of a session:
  server.TestNoMessageIsSentForACancelledRequest httpserver.TestDisconnectDoesNotCancelSessionRequest
- a server cancels the questions that it no longer asks: mcptest.TestInputRequestsCanBeCancelled
- late and unknown responses, cancellations and progress are ignored: outbound.TestResponsesToUnknownIDsAreIgnored
  rpc.TestCancelIgnoresRequestsNotInFlight outbound.TestProgressForUnknownTokensIsIgnored
- an error without an id reaches the log: client.TestGarbageIsLoggedAndSkipped
- Close ends the calls in flight, with an error of their own: client.TestCloseEndsCallsInFlight
- errors have the code of their cause, and those of handlers their data: mcptest.TestProtocolErrorsAreErrors
  rpc.TestPanicBecomesInternalError rpc.TestOtherMethodsAreNotFound server.TestMalformedParamsAreRejected
- progress arrives in order, during its call only, and increases; tokens are distinct:
  mcptest.TestConcurrentCallsReceiveTheirOwnProgress rpc.TestProgressIncreasesStrictly
  rpc.TestNothingIsSentAfterTheCallHasEnded client.TestProgressArrivesDuringTheCallOnly
- calls end at their time-out, which progress extends up to a maximum, and the connection remains:
  client.TestCallEndsAtItsTimeout outbound.TestProgressExtendsTheTimeoutUpToTheMaximum
- _meta reaches handlers and callers: mcptest.TestClientMiddlewareWrapsRequests
  mcptest.TestResultCanBeSharedByConcurrentCalls
- methods and notifications of extensions work in both directions, need a declaration, and check their params:
  mcptest.TestExtensionWorksInEveryRevision mcptest.TestExtensionRequiresDeclaration
  call.TestParamsThatDoNotFitTheirTypeAreAnErrorForTheClient
- results of another form or type are errors, and never empty results: client.TestMalformedResultsAreInvalid
  client.TestUnknownResultTypesAreInvalid client.TestInputRequiredIsRejectedForOtherMethods
  client.TestResultsOfOtherTypesAreInvalidInSessions
Tools, resources, prompts, completion:
- every kind of content arrives, in tools and prompts: mcptest.TestEveryKindOfContentArrives
- definitions arrive as registered: mcptest.TestDefinitionsOfToolsArrive mcptest.TestListPrompts
  mcptest.TestListResourcesAndFiles mcptest.TestListTemplates
- lists have pages; cursors are opaque, and others are rejected: mcptest.TestListTools client.TestListsFollowCursors
  client.TestListsAreLimited server.TestInvalidCursorsAreRejected
- failures of tools are results; unknown tools and resources, and missing arguments of prompts are errors:
  mcptest.TestToolErrorsAreResults mcptest.TestMissingResourceIsNotFound mcptest.TestErrorsOfResourcesHaveCodeAndText
  mcptest.TestInvalidPromptRequestsAreRejected
- invalid arguments run no handler: server.TestArgumentsAreValidated
- structured content matches its schema at the server, unless the tool failed:
  server.TestResultsMustMatchTheOutputSchema server.TestEveryKindOfResultIsEncoded
- the client rejects other structured content, and survives schemas that it cannot use: client.TestResultsAreValidated
  client.TestInvalidOutputSchemaIsLogged schema.TestOfficialSuitePasses
- values that are no objects are structured content, wrapped for earlier clients:
  server.TestValuesThatAreNoObjectsAreStructured revision.TestOnlyModernPeersReceiveOutputSchemasOfAnyType
- names in use are rejected: server.TestRegisterToolReturnsTheReason server.TestInvalidResourcesAreRejected
  server.TestInvalidPromptsAreRejected
- changes while clients are connected are announced, few for many, and only where a client watches:
  mcptest.TestWatchReportsChanges server.TestManyChangesBecomeOneNotificationForASlowReader
  client.TestWatchOfUndeclaredChangesFailsAtOnce server.TestToolsCanChangeWhileServing
- entries can be hidden: server.TestHiddenEntriesAreUnknownToOthers
- subscribers of a resource receive its updates until they leave: mcptest.TestWatchesAreIndependent
  server.TestSessionsReceiveOnlyTheirSubscriptions
- templates give their variables to handlers and list their resources: mcptest.TestReadResources
  server.TestVariablesAreDecodedIntoTheirTypes server.TestFilesAreListedInTheOrderOfURIs
- completion has at most 100 values, receives earlier arguments, and rejects unknown references: mcptest.TestComplete
- log messages of all levels follow the level of client or request, and unknown levels are rejected:
  mcptest.TestLogMessagesFollowLevelOfClient mcptest.TestServerRejectsInvalidLogLevel
Questions:
- sampling reaches the model unchanged, and its answer the handler: mcptest.TestSamplingArrivesAsItWasSent
- sampling with tools is declared, and each use has its result, in a message of its own:
  mcptest.TestSamplingWithToolsNeedsACapability mcp.TestEveryToolUseHasResult
- a refusal reaches the handler as an error with its code: mcptest.TestRefusedQuestionsAreErrors
- forms arrive as they were sent, in every kind of field; they are flat, completed and validated on both sides:
  mcptest.TestFormsArriveAsTheyWereSent mcptest.TestFormsAreCompletedAndValidated mcp.TestFormMustBeFlat
  server.TestAnswersOfAnotherTypeAreRejected
- decline and cancel have no content: mcptest.TestDeclineAndCancelAreTypedErrors server.TestUsersCanDeclineAURL
- URL elicitation in each revision that has it, with its error, retry and notification:
  mcptest.TestURLElicitationInEveryRevision client.TestCallIsRepeatedAfterURLElicitation
  client.TestCallIsRepeatedWhenURLElicitationCompletes client.TestURLElicitationErrorsOfOtherRevisionsAreIgnored
- roots are file URIs, may be none, and their changes are announced: client.TestRootsAreFileURIs
  mcptest.TestRefusedQuestionsAreErrors mcptest.TestServerReceivesRootsChanged
- one handler asks several questions in a row, in sessions and in 2026-07-28, with bounds:
  mcptest.TestHandlerRequestsInputInEveryRevision client.TestRequestStateIsReturnedUnchanged
  serve/modern.TestRoundsAreLimited
Tasks:
- tasks of 2025-11-25: creation, status, time to live, list, result, questions, cancellation, isolation:
  server.TestTaskHasTheTTLThatTheServerAllows server.TestTaskListHasTheTasksOfTheCaller
  server.TestQuestionIsSentOnlyToClientsThatCanAnswer server.TestTaskResultCarriesTheQuestionsOfTheTask
  server.TestLegacyCancelEndsTheTaskBeforeTheResponse server.TestOnlyTasksCancelCancelsATask
  server.TestStoredThingsDoNotExistForOtherPrincipals
- tools decide whether they run as tasks: server.TestTaskSupportOfToolsIsEnforced
- progress, status and related tasks of messages: server.TestSessionsAreNotifiedOfTheirTasks
  client.TestTaskOfASessionReportsProgressWithTheTokenOfItsCall revision.TestRelatedTaskIsAddedToTheMetadata
- a client runs questions as tasks: dial/legacy.TestClientCreatesATaskBeforeItAsks
Subscriptions of 2026-07-28:
- a listen is acknowledged first with what is honoured, gets that only, and ends with a result:
  server.TestListenIsAcknowledgedFirst server.TestListensAreLimitedToDeclaredCapabilities
  server.TestTwoListensOnOneConnectionAreSeparate mcptest.TestShutdownEndsWatches
- listens have a limit of their own: rpc.TestSubscriptionsHaveTheirOwnLimit
HTTP servers:
- sessions: ids, isolation, reuse, end; unknown and missing ids, versions and event ids have their statuses:
  corpus.TestServersAnswerBadHTTPRequests serve/legacy.TestSessionIDsAreUnguessableAndVisibleASCII
  serve/legacy.TestDeletedSessionStaysDeleted serve/legacy.TestDeleteCancelsRequestsInFlight
- the revision of a rejected header is followed by those that sessions can have:
  server.TestAVersionThatNoSessionHasIsRejectedWithThoseThatExist
- 2026-07-28 has POST only, no sessions, and no methods of sessions: server.TestTheModernEraHasOnlyPOST
- Accept, Content-Type, batches, 202, and parse errors: httpserver.TestAcceptHeaderFollowsRFC9110
  httpguard.TestPostRequiresJSON server.TestBatchIsServedInTheOneRevisionThatHasIt
  server.TestNotificationsAndResponsesAreAcceptedWithoutABody
- Origin, Host, and what pages can read: server.TestOriginIsCheckedOnEveryMethod
  server.TestAllowedOriginsCanReadResponses
- a response is JSON or a stream, as the client accepts, and is on the stream of its request, which then ends:
  server.TestTheResponseHasATypeThatTheClientAccepts server.TestTheResponseStreamBelongsToTheCall
  server.TestClientsOfJSONCannotBeAsked
- server messages are on one stream, never lost or doubled when it is resumed: server.TestChangesGoToOneStreamOfASession
  server.TestEachEventOfAStreamThatIsCutFiftyTimesArrivesOnce server.TestForgedEventIDsReplayNothing
- HTTP+SSE beside Streamable HTTP: server.TestPairBeginsWithItsEndpoint server.TestPairEndsWithItsStream
- headers repeat method, name and parameters, and must agree with the body: mcptest.TestParametersAreMirroredInHeaders
  mcptest.TestHeadersMustMatchArguments
- results that may be cached say so, in 2026-07-28 only: server.TestCachePoliciesSetTheHints mcptest.TestReadResources
HTTP clients:
- headers of each request, those of the program too: httpclient.TestModernRequestsCarryTheirHeaders
  httpclient.TestSessionRequestsCarryTheirHeaders
- every form of response is read: httpclient.TestClientReadsEachFormOfResponse
- a lost session is replaced: client.TestLostSessionsWithOtherStatusesAreReplaced
- streams are resumed after the delay that the server asks for, unless they are finished or closed:
  httpclient.TestStandaloneStreamIsResumedAfterTheRetryDelay httpclient.TestBrokenResponseOfASessionIsResumed
  client.TestCloseEndsReconnecting
- a server without the GET stream is no error: httpclient.TestClientAsksOnceForStandaloneStream
- status errors have their status and the error of the server: httpclient.TestStatusErrorsContainTheServersError
Authorization:
- tokens: audience, expiry, scopes, challenges, metadata, and never in the query: auth.TestAudienceIsComparedAsURI
  auth.TestRequireWithoutToken auth.TestMetadataIsServed jwt.TestDefectiveTokensAreInvalid
  httpserver.TestAuthorizationIsTheSameEverywhere
- discovery, PKCE, state, issuer, resource and https, by the rules: oauth.TestViolationsLeadToErrors
  oauth.TestDiscoveryRequestsTheWellKnownURLsInOrder oauth.TestCallbacksOfTheCorpusAreJudgedAsRecorded
- registration: order, document, application type, unusable answers, and one for each issuer:
  oauth.TestRegistrationsAreTriedInOrder oauth.TestRegistrationsDescribeTheProgram
  oauth.TestUnusableRegistrationsFailBeforeTheLogin oauth.TestChangedAuthorizationServer
  oauth.TestRegistrationIsBoundToTheFirstIssuer
- scopes: of the challenge, offline access, and step-up with the union, which ends:
  oauth.TestScopesOfTheChallengeComeFirst oauth.TestStepUpRequestsTheUnion mcptest.TestStepUpKeepsSession
- tokens are refreshed, rotated, bound to their server, and forgotten after a refusal:
  oauth.TestConcurrentRequestsShareOneRefresh oauth.TestRefreshTokenIsForgottenOnlyAfterARefusal
  oauth.TestRefreshTokenIsKeptIfTheResponseHasNone oauth.TestTokensAreSentToTheirServerOnly
- clients without a user: oauth.TestGrantsWithoutUser oauth.TestEnterpriseGrant
- the issuer for development: redirects, PKCE, codes, registration: devissuer.TestCodeIsBoundToItsRequest
  devissuer.TestUnregisteredRedirectURIsAreRejected devissuer.TestDynamicRegistration
stdio:
- one message a line, and nothing else: transport.TestLinesAreMessages transport.TestPrintedTextGoesToStderr
  rpc.TestResultsHaveNoLineBreaks
- closing ends the process, gently first; its environment is small, and its standard error is kept:
  transport.TestServerThatIgnoresEOFIsTerminated transport.TestServerThatIgnoresSIGTERMIsKilled
  transport.TestEnvironmentIsInheritedOnlyOnRequest transport.TestStderrArrivesLineByLine
`

var requiredTest = regexp.MustCompile(`([a-z0-9/]+)\.(Test[A-Za-z0-9]+)`)

func TestRequirementsOfOtherSDKsHaveTests(t *testing.T) {
	rows := strings.Split(requirements, "\n- ")[1:]
	for _, row := range rows {
		tests := requiredTest.FindAllStringSubmatch(row, -1)
		must.CheckThat(t, len(tests) != 0 && strings.Count(row, ".Test") == len(tests),
			"needs tests, as package.TestName: %s", row)
		for _, r := range tests {
			if !slices.ContainsFunc([]string{"", "internal/", "internal/serve/", "internal/dial/", "auth/"},
				func(parent string) bool { return hasTest(t, parent+r[1], r[2], "") }) {
				t.Errorf("%s does not exist: %s", r[0], row)
			}
		}
	}
	must.CheckThat(t, len(rows) >= 70, "found %d rows", len(rows))
}
