package secretname

import (
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestSecretNamesAreRecognised(t *testing.T) {
	const field, setting = 1, 2 // a secret field is a secret setting, too
	for name, want := range map[string]int{
		"password": field, "userPassword": field, "DB_PASSWORD": field, "client-secret": field, "apiKey": field,
		"APIKey": field, "api_key": field, "apikey": field, "X-Auth-Token": field, "githubToken": field,
		"privateKey": field, "otp": field, "authorization": field,
		"key": setting, "STRIPE_KEY": setting, "DB_PASS": setting, "X-Jira-Auth": setting, "tokens": setting,
		"MAX_TOKENS": setting, "secretary": setting, "Set-Cookie": field,
		"": 0, "keyboard": 0, "Mcp-Protocol-Version": 0, "author": 0, "SSH_ASKPASS": 0, "OLDPWD": 0, "pwd": field, "NO_AUTH": 0,
	} {
		must.CheckEqual(t, IsField(name), want == field, name)
		must.CheckEqual(t, IsSetting(name), want != 0, name)
	}
	must.CheckThat(t, !IsSetting("PWD"), "the working directory is secret")
	must.CheckThat(t, !IsField("progressToken") && !IsField("token_type"), "a public field is secret")
}

func TestSecretHeadersAreRecognised(t *testing.T) {
	for name, want := range map[string]bool{
		"authorization": true, "Proxy-Authorization": true, "Cookie": true, "Set-Cookie": true, "DPoP": true,
		"X-Api-Key": true, "X-Auth": true, "X-Jira-Key": true, "X-Acme": true, "x-acme": true,
		"X-Acme-Region": false, "Mcp-Name": false, "Mcp-Method": false, "Mcp-Protocol-Version": false, "Accept": false,
		"Content-Type": false, "Www-Authenticate": false, "Access-Control-Allow-Headers": false,
	} {
		must.CheckEqual(t, IsHeader(name, []string{"X-Tenant", "x-Acme"}), want, name)
	}
	must.CheckThat(t, !IsHeader("X-Acme", nil), "X-Acme is secret without a configuration")
}
