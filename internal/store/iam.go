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
	// tokenExpires is ElastiCache's maximum, in seconds.
	tokenExpires = "900"
	// loginAgain is the age at which a connection logs in with a new token. ElastiCache
	// closes a connection 12 hours after its last log-in.
	loginAgain = 11 * time.Hour
)

// iamIdentity has the user and the cache that it logs in to.
type iamIdentity struct {
	cache, user, region string
	serverless          bool
	now                 func() time.Time
}

// checkIAM returns an error for a URL with iam= that lacks something.
func checkIAM(option valkey.ClientOption, id iamIdentity) error {
	switch {
	case option.TLSConfig == nil:
		return fmt.Errorf("%w: IAM needs TLS: write valkeys:// before the user", ErrURL)
	case id.user == "":
		return fmt.Errorf("%w: IAM needs a user: write valkeys://user@host?iam=%s", ErrURL, id.cache)
	case option.Password != "":
		return fmt.Errorf("%w: IAM takes no password: a token takes its place", ErrURL)
	case id.region == "":
		return fmt.Errorf("%w: IAM needs a region: set AWS_REGION or add &region=REGION", ErrURL)
	}
	return nil
}

// credentials signs a token for a connection that logs in now.
func (id iamIdentity) credentials(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
	token, err := id.token(context.Background())
	if err != nil {
		return valkey.AuthCredentials{}, err
	}
	return valkey.AuthCredentials{Username: id.user, Password: token,
		RefreshAfter: id.now().Add(loginAgain)}, nil
}

var errNoCredentials = errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set")

// token returns a presigned GET request for the cache without its scheme. Signing makes
// no network call.
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
