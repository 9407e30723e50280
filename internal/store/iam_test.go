package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// referenceSignature computes Signature Version 4 as its specification describes it, for
// a presigned GET whose only signed header is host.
func referenceSignature(secret, host, path, payload string, query url.Values) string {
	query.Del("X-Amz-Signature")
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	sign := func(key []byte, text string) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	_, scope, _ := strings.Cut(query.Get("X-Amz-Credential"), "/")
	canonical := strings.Join([]string{
		"GET", path, strings.ReplaceAll(query.Encode(), "+", "%20"), "host:" + host, "", "host", payload,
	}, "\n")
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = sign(key, part)
	}
	return hex.EncodeToString(sign(key, "AWS4-HMAC-SHA256\n"+query.Get("X-Amz-Date")+"\n"+scope+"\n"+
		hash(canonical)))
}

const (
	exampleKey    = "AKIAIOSFODNN7EXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	emptyHash     = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// The reference reproduces the presigned URL that AWS publishes as an example of
// Signature Version 4.
func TestReferenceSignature(t *testing.T) {
	got := referenceSignature(exampleSecret, "examplebucket.s3.amazonaws.com", "/test.txt",
		"UNSIGNED-PAYLOAD", url.Values{
			"X-Amz-Algorithm":     {"AWS4-HMAC-SHA256"},
			"X-Amz-Credential":    {exampleKey + "/20130524/us-east-1/s3/aws4_request"},
			"X-Amz-Date":          {"20130524T000000Z"},
			"X-Amz-Expires":       {"86400"},
			"X-Amz-SignedHeaders": {"host"},
		})
	if got != "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404" {
		t.Errorf("got %s, want the published signature", got)
	}
}

func TestToken(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		name, user, session string
		serverless          bool
	}{
		{"node-based", "check", "", false},
		{"serverless", "check", "", true},
		{"with the session token of a function", "check", "IQoJ/b3+JpZ2lu==", true},
		{"a user to be escaped", "a b+c&d=é", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", exampleKey)
			t.Setenv("AWS_SECRET_ACCESS_KEY", exampleSecret)
			t.Setenv("AWS_SESSION_TOKEN", c.session)
			id := iamIdentity{cache: "tidegate", user: c.user, region: "eu-west-1", serverless: c.serverless,
				now: func() time.Time { return now }}
			token, err := id.token(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			raw, ok := strings.CutPrefix(token, "tidegate/?")
			query, err := url.ParseQuery(raw)
			if !ok || err != nil {
				t.Fatalf("got token %s, want tidegate/? and a query: %v", token, err)
			}
			signature := query.Get("X-Amz-Signature")
			reference := referenceSignature(exampleSecret, "tidegate", "/", emptyHash, query)
			if signature != reference {
				t.Errorf("got signature %s, want %s", signature, reference)
			}
			want := url.Values{
				"Action": {"connect"}, "User": {c.user}, "X-Amz-Expires": {"900"},
				"X-Amz-Date":      {"20260304T040607Z"},
				"X-Amz-Algorithm": {"AWS4-HMAC-SHA256"}, "X-Amz-SignedHeaders": {"host"},
				"X-Amz-Credential": {exampleKey + "/20260304/eu-west-1/elasticache/aws4_request"},
			}
			if c.serverless {
				want.Set("ResourceType", "ServerlessCache")
			}
			if c.session != "" {
				want.Set("X-Amz-Security-Token", c.session)
			}
			if query.Encode() != want.Encode() {
				t.Errorf("got  %s\nwant %s", query.Encode(), want.Encode())
			}
		})
	}
}

func TestTokenNeedsCredentials(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", exampleKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	id := iamIdentity{cache: "tidegate", user: "check", region: "eu-west-1", now: time.Now}
	if _, err := id.token(t.Context()); !errors.Is(err, errNoCredentials) ||
		strings.Contains(err.Error(), exampleKey) {
		t.Errorf("got error %v, want %v without the key id", err, errNoCredentials)
	}
}

// Each connection logs in with a new token, signed with the current credentials. So calls
// succeed after the first token has expired and the connections are closed.
func TestIAMLogin(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", exampleKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", exampleSecret)
	server := valkeytest.Start(t)
	address, roots := startTLSProxy(t, server)
	admin := open(t, server, patient)
	option, err := parse("valkeys://check@" + address + "?iam=tidegate&region=eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	option.TLSConfig.RootCAs = roots
	clock := time.Now()
	id := iamIdentity{cache: "tidegate", user: "check", region: "eu-west-1", now: func() time.Time {
		return clock
	}}
	option.AuthCredentialsFn = id.credentials
	permit := func() {
		token, err := id.token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run(t, admin, "ACL", "SETUSER", "check", "reset", "on", ">"+token, "~*", "+@all")
	}
	permit()
	client, err := patient.connect(t.Context(), patient.applied(option))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if who := run(t, client, "ACL", "WHOAMI"); who != "check" {
		t.Errorf("logged in as %s, want check", who)
	}

	clock = clock.Add(16 * time.Minute)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIANEWEXAMPLE")
	permit()
	run(t, admin, "CLIENT", "KILL", "USER", "check")
	if err := client.Do(t.Context(), client.B().Get().Key("k").Build()).Error(); err != nil &&
		!strings.Contains(err.Error(), "nil") {
		t.Errorf("with a new token: got error %v", err)
	}
}

// An old connection logs in again before ElastiCache would close it, and no call fails.
func TestIAMConnectionsLogInAgain(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", exampleKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", exampleSecret)
	server := valkeytest.Start(t)
	address, roots := startTLSProxy(t, server)
	admin := open(t, server, patient)
	run(t, admin, "ACL", "SETUSER", "check", "reset", "on", "nopass", "~*", "+@all")
	option, err := parse("valkeys://check@" + address + "?iam=tidegate&region=eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	option.TLSConfig.RootCAs = roots
	soon := func() time.Time { return time.Now().Add(20*time.Millisecond - loginAgain) }
	option.AuthCredentialsFn = iamIdentity{cache: "tidegate", user: "check", region: "eu-west-1",
		now: soon}.credentials
	client, err := patient.connect(t.Context(), patient.applied(option))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	waiting.Until(t, "the connection logs in again", func() bool {
		run(t, client, "PING")
		return strings.Contains(run(t, admin, "INFO", "commandstats"), "cmdstat_auth:")
	})
}
