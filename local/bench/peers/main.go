// Command peers is a Lambda authorizer made of common Go libraries: go-redis, redis_rate
// and go-oidc. It looks up the API key, or verifies the token, and takes from two limits
// at once. scripts/bench check compares it and authorizer.mjs with the check function.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// errUnauthorized has the text that makes API Gateway answer 401.
var errUnauthorized = errors.New("Unauthorized")

var limits = []redis_rate.Limit{
	{Rate: 100, Burst: 100, Period: 10 * time.Second},
	{Rate: 1000, Burst: 1000, Period: 10 * time.Minute},
}

type authorizer struct {
	client   *redis.Client
	limiter  *redis_rate.Limiter
	pepper   []byte
	verifier *oidc.IDTokenVerifier // nil if callers have API keys
}

func main() {
	a, err := newAuthorizer()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	lambda.Start(a.authorize)
}

func newAuthorizer() (*authorizer, error) {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	options.DisableIdentity = true
	a := &authorizer{client: redis.NewClient(options), pepper: []byte(os.Getenv("KEY_PEPPER"))}
	a.limiter = redis_rate.NewLimiter(a.client)
	if url := os.Getenv("JWT_JWKS_URL"); url != "" {
		a.verifier = oidc.NewVerifier(os.Getenv("JWT_ISSUER"),
			oidc.NewRemoteKeySet(context.Background(), url),
			&oidc.Config{ClientID: os.Getenv("JWT_AUDIENCE")})
	}
	return a, nil
}

type (
	request  = events.APIGatewayCustomAuthorizerRequestTypeRequest
	response = events.APIGatewayCustomAuthorizerResponse
)

func (a *authorizer) authorize(ctx context.Context, event request) (response, error) {
	id, err := a.caller(ctx, event.Headers)
	if err != nil {
		return response{}, err
	}
	taken, err := a.take(ctx, id)
	if err != nil {
		return response{}, err
	}
	effect := "Allow"
	if taken.Allowed == 0 {
		effect = "Deny"
	}
	return response{
		PrincipalID: id,
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version: "2012-10-17",
			Statement: []events.IAMPolicyStatement{{
				Action: []string{"execute-api:Invoke"}, Effect: effect, Resource: []string{event.MethodArn},
			}},
		},
		Context: map[string]any{"remaining": taken.Remaining, "reset": int(taken.ResetAfter.Seconds())},
	}, nil
}

// caller returns the caller's id, or errUnauthorized for a bad credential.
func (a *authorizer) caller(ctx context.Context, headers map[string]string) (string, error) {
	if a.verifier != nil {
		token, err := a.verifier.Verify(ctx, strings.TrimPrefix(headers["authorization"], "Bearer "))
		if err != nil {
			return "", errUnauthorized
		}
		return token.Subject, nil
	}
	hash := hmac.New(sha256.New, a.pepper)
	hash.Write([]byte(headers["x-api-key"]))
	record, err := a.client.HGetAll(ctx, "peers:key:"+hex.EncodeToString(hash.Sum(nil))).Result()
	if err != nil {
		return "", err
	}
	if record["plan"] != "pro" {
		return "", errUnauthorized
	}
	return record["id"], nil
}

// take takes one call from every limit and returns the result of the tightest limit.
func (a *authorizer) take(ctx context.Context, id string) (*redis_rate.Result, error) {
	results := make([]*redis_rate.Result, len(limits))
	failed := make([]error, len(limits))
	var all sync.WaitGroup
	for i, limit := range limits {
		all.Go(func() {
			results[i], failed[i] = a.limiter.Allow(ctx, fmt.Sprintf("go:%d:%s", i, id), limit)
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	least := results[0]
	for _, r := range results[1:] {
		if least.Allowed > 0 && (r.Allowed == 0 || r.Remaining < least.Remaining) {
			least = r
		}
	}
	return least, nil
}
