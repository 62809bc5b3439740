package client

import "net/http"

// Authorizer adds credentials to the HTTP requests of a client, in every revision, and
// obtains them when a server asks for them. Package auth/oauth has one for OAuth. The server
// argument of its methods is the URL of the target. The methods are only called for requests
// to the origin of that URL, possibly concurrently.
//
// An Authorizer may also have a method Identity(server string) string, which returns a
// digest of the credentials that it would add now, or an empty string if it does not know.
// A Client keeps the private results of each identity apart. Without the method, the Authorizer
// must not change to the credentials of another user during the life of a Client.
type Authorizer interface {
	// Authorize adds credentials for server to the header of req, if it has any. It must not
	// change anything else. After an error the request is not sent.
	Authorize(req *http.Request, server string) error
	// Reauthorize is called when the server has answered an authorized request with status
	// 401 or 403. If it returns true, the client authorizes the request and sends it once
	// more. If it returns false and no error, the response stands. It must not read the body
	// of resp, and ends when the context of req ends.
	Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error)
}
