package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/valkey-io/valkey-go"
)

const (
	// tokenExpires is the validity of a token in seconds: ElastiCache's maximum.
	tokenExpires = "900"
	// loginAgain is the age at which a connection logs in with a new token. ElastiCache
	// closes a connection 12 hours after its last log-in.
	loginAgain = 11 * time.Hour
)

// iamIdentity has a user and the cache that it logs in to.
type iamIdentity struct {
	cache, user, region string
	serverless          bool
	now                 func() time.Time
}

// checkIAM returns an error if a URL with iam= lacks TLS, a user or a region, or has a
// password.
func checkIAM(option valkey.ClientOption, id iamIdentity) error {
	switch {
	case option.TLSConfig == nil:
		return fmt.Errorf("%w: IAM requires TLS: use valkeys://", ErrURL)
	case id.user == "":
		return fmt.Errorf("%w: IAM requires a user: use valkeys://user@host?iam=%s", ErrURL, id.cache)
	case option.Password != "":
		return fmt.Errorf("%w: IAM uses a token and no password: remove the password", ErrURL)
	case id.region == "":
		return fmt.Errorf("%w: IAM requires a region: set AWS_REGION or add &region=REGION", ErrURL)
	}
	return nil
}

// credentials returns the user and a new token as its password.
func (id iamIdentity) credentials(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
	token, err := id.token(context.Background())
	if err != nil {
		return valkey.AuthCredentials{}, err
	}
	return valkey.AuthCredentials{Username: id.user, Password: token,
		RefreshAfter: id.now().Add(loginAgain)}, nil
}

var errNoCredentials = errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set")

// token returns the URL of a presigned GET request for the cache, without the scheme.
// Signing makes no network call.
func (id iamIdentity) token(ctx context.Context) (string, error) {
	signer := aws.Credentials{
		AccessKeyID:     os.Getenv("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
	}
	if !signer.HasKeys() {
		return "", fmt.Errorf("sign IAM token: %w", errNoCredentials)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id.url(), http.NoBody)
	if err != nil {
		return "", fmt.Errorf("sign IAM token: %w", err)
	}
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, signer, request, hex.EncodeToString(empty[:]),
		"elasticache", id.region, id.now())
	if err != nil {
		return "", fmt.Errorf("sign IAM token: %w", err)
	}
	return strings.TrimPrefix(signed, "http://"), nil
}

func (id iamIdentity) url() string {
	query := url.Values{"Action": {"connect"}, "User": {id.user}, "X-Amz-Expires": {tokenExpires}}
	if id.serverless {
		query.Set("ResourceType", "ServerlessCache")
	}
	return (&url.URL{Scheme: "http", Host: id.cache, Path: "/", RawQuery: query.Encode()}).String()
}
